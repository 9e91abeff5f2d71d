#include "webhooks/testing/case_driver.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "json/merge_patch.h"
#include "json/patch.h"
#include "webhooks/fields.h"
#include "webhooks/review_codec.h"

namespace basalt::webhooks::testing {
namespace {

const kube::Resource kNamespaces{"", "v1", "namespaces"};
const kube::Resource kQueues{"scheduling.volcano.sh", "v1beta1", "queues"};
const kube::Resource kPriorityClasses{"scheduling.k8s.io", "v1", "priorityclasses"};

kube::Resource resource_of(const Hook& hook) {
  return {std::string(hook.group), std::string(hook.version), std::string(hook.resource)};
}

std::string name_in(const json::Value& object) { return std::string(object.string_at({"metadata", "name"})); }

bool is_nothing(const json::Value* value) {
  if (value == nullptr || value->is_null()) return true;
  if (value->is_string()) return value->as_string().empty();
  if (value->is_array()) return value->as_array().empty();
  if (!value->is_object()) return false;
  return std::all_of(value->as_object().begin(), value->as_object().end(),
                     [](const json::Member& one) { return is_nothing(&one.value); });
}

// The place of what is expected and not there; "" if everything is. Servers leave out what is empty, and write amounts
// their own way.
std::string missing_in(const json::Value& actual, const json::Value& expected, const std::string& place) {
  if (actual == expected || is_nothing(&expected)) return "";
  if (expected.is_object() && actual.is_object()) {
    for (const json::Member& wanted : expected.as_object()) {
      const json::Value* found = actual.find(wanted.key);
      if (found == nullptr && is_nothing(&wanted.value)) continue;
      const std::string below = place + "." + wanted.key;
      if (found == nullptr) return below + " is not there";
      if (std::string where = missing_in(*found, wanted.value, below); !where.empty()) return where;
    }
    return "";
  }
  if (expected.is_array() && actual.is_array() && expected.as_array().size() == actual.as_array().size()) {
    for (std::size_t i = 0; i < expected.as_array().size(); ++i) {
      std::string where =
          missing_in(actual.as_array()[i], expected.as_array()[i], place + "[" + std::to_string(i) + "]");
      if (!where.empty()) return where;
    }
    return "";
  }
  const auto left = quantity_of(actual);
  const auto right = quantity_of(expected);
  if (left.ok() && right.ok() && *left == *right) return "";
  return place + " is " + actual.to_text() + " instead of " + expected.to_text();
}

// An API server keeps the status of what is stored, whatever is written beside it.
void keep_status(json::Value& object, const json::Value* stored) {
  if (!object.is_object()) return;
  object.as_object().erase("status");
  const json::Value* status = stored == nullptr ? nullptr : stored->find("status");
  if (status != nullptr) object.as_object().set("status", *status);
}

std::string denial(const Hook& hook, const ReviewAnswer& answer) {
  return "admission webhook \"" + std::string(hook.webhook_name) + "\" denied the request: " + answer.message;
}

kube::Request request_about(kube::Verb verb, const RuleCase& one) {
  kube::Request request;
  request.verb = verb;
  request.resource = resource_of(*one.hook);
  request.ns = one.ns();
  if (verb != kube::Verb::Create) request.name = name_in(one.operation == Operation::Delete ? one.object : one.start);
  return request;
}

// The case as a dry run.
kube::Request write_of(const RuleCase& one) {
  const bool is_update = one.operation == Operation::Update;
  const bool is_delete = one.operation == Operation::Delete;
  kube::Request request =
      request_about(is_update ? kube::Verb::Patch : (is_delete ? kube::Verb::Delete : kube::Verb::Create), one);
  if (!is_delete) request.body = (is_update ? one.change : one.object).to_text();
  request.dry_run = true;
  return request;
}

bool is_denial(const Error& error) { return error.message.find("denied the request") != std::string::npos; }

}  // namespace

AskReview ask_over_https(net::HttpClient& client, std::string url) {
  return [&client, url = std::move(url)](const Hook& hook, const ReviewRequest& request) -> Result<ReviewAnswer> {
    const std::string body = encode_review("the-case", request);
    net::HttpRequest post;
    post.method = "POST";
    post.url = url + std::string(hook.path);
    post.headers = {{"Content-Type", "application/json"}};
    post.body = body;
    BASALT_TRY(const net::HttpResponse response, client.call(post, {}));
    if (response.status != 200) {
      return Error::make(Reason::InternalError,
                         "it answered with " + std::to_string(response.status) + ": " + response.body.substr(0, 200));
    }
    return decode_answer(response.body, "the-case");
  };
}

std::string CaseReport::summary() const {
  return std::to_string(stored + denied + without_words) + " writes (" + std::to_string(stored) + " accepted, " +
         std::to_string(denied) + " refused with the rule's words, " + std::to_string(without_words) +
         " that a server changes until they pass), " + std::to_string(refused_before.size()) +
         " refused by the server before the rules, " + std::to_string(not_sent) + " never sent; " +
         std::to_string(asked) + " asked of the admission server itself; " + std::to_string(problems.size()) +
         " problems";
}

CaseDriver::CaseDriver(kube::Client& client, const std::vector<RuleCaseFile>& files)
    : client_(client), world_(joined_world(files)) {
  for (const RuleCaseFile& file : files) cases_.insert(cases_.end(), file.cases.begin(), file.cases.end());
}

std::vector<CaseDriver::Setting> CaseDriver::settings() const {
  std::vector<Setting> all{{json::Value(json::Object()), ""}};
  for (const RuleCase& one : cases_) {
    const Setting setting{one.options, one.resource_groups};
    if (std::find(all.begin(), all.end(), setting) == all.end()) all.push_back(setting);
  }
  return all;
}

void CaseDriver::problem(const RuleCase& one, const std::string& what) {
  report_.problems.push_back(one.label + ": " + what);
}

std::vector<Result<kube::Response>> CaseDriver::call_all(const std::vector<const RuleCase*>& cases) {
  std::vector<kube::Request> requests;
  for (const RuleCase* one : cases) requests.push_back(write_of(*one));
  auto responses = client_.call_all(requests, {.in_flight_max = 16}, {});
  // A server closes connections that were idle for long; a dry run can be sent again.
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (int tries = 0; tries < 3 && !responses[i].ok() && responses[i].error().is(Reason::ConnectionLost); ++tries)
      responses[i] = client_.call(requests[i], {});
  }
  return responses;
}

std::string CaseDriver::make(const kube::Resource& resource, const std::string& ns, const json::Value& object,
                             bool has_status) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = resource;
  request.ns = ns;
  request.body = object.to_text();
  const auto made = client_.call(request, {});
  if (!made.ok() && !made.error().is(Reason::AlreadyExists)) {
    return resource.plural + " " + name_in(object) + ": " + made.error().message;
  }
  const json::Value* status = object.find("status");
  if (!has_status || status == nullptr) return "";
  request.verb = kube::Verb::Patch;
  request.name = name_in(object);
  request.subresource = "status";
  request.body = json::Value(json::Object{{"status", *status}}).to_text();
  const auto written = client_.call(request, {});
  return written.ok() ? "" : request.name + "/status: " + written.error().message;
}

std::string CaseDriver::prepare_world() {
  std::set<std::string> namespaces;
  for (const RuleCase& one : cases_) namespaces.insert(one.ns());
  namespaces.erase("");
  for (const std::string& name : namespaces) {
    const json::Value* annotations = world_.namespaces.find(name);
    json::Object metadata{{"name", name}, {"labels", json::Object{{"volcano.sh/resource-groups", "enabled"}}}};
    if (annotations != nullptr) metadata.set("annotations", *annotations);
    std::string error =
        make(kNamespaces, "", json::Object{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", metadata}});
    if (!error.empty()) return error;
  }
  for (json::Value& queue : world_.queues) {
    queue.as_object().set("apiVersion", "scheduling.volcano.sh/v1beta1");
    queue.as_object().set("kind", "Queue");
    if (std::string error = make(kQueues, "", queue, true); !error.empty()) return error;
  }
  for (const std::string& name : world_.priority_classes) {
    std::string error = make(kPriorityClasses, "",
                             json::Object{{"apiVersion", "scheduling.k8s.io/v1"},
                                          {"kind", "PriorityClass"},
                                          {"metadata", json::Object{{"name", name}}},
                                          {"value", 1}});
    if (!error.empty()) return error;
  }
  return "";
}

// Replaces the object that the update starts from by what the server made of it.
std::string CaseDriver::store(RuleCase& one) {
  if (std::string error = make(resource_of(*one.hook), one.ns(), one.start, true); !error.empty()) return error;
  const auto stored = client_.call(request_about(kube::Verb::Get, one), {});
  if (!stored.ok()) return stored.error().message;
  auto object = json::Value::parse(*stored->body);
  if (!object.ok()) return object.error().message;
  one.start = std::move(*object);
  one.object = json::apply_merge_patch(one.start, one.change);
  return "";
}

// Each rule's object has a namespace of its own, so that rules may start from different ones of the same name.
std::string CaseDriver::prepare_updates() {
  std::map<std::string, std::string> namespaces;  // file and rule -> namespace
  for (RuleCase& one : cases_) {
    if (one.operation != Operation::Update || !one.is_sent()) continue;
    if (!one.ns().empty()) {
      const std::string key = one.file + "/" + one.rule;
      const auto [entry, is_new] = namespaces.try_emplace(key, "update-" + std::to_string(namespaces.size()));
      if (is_new) {
        std::string error =
            make(kNamespaces, "",
                 json::Object{
                     {"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", json::Object{{"name", entry->second}}}});
        if (!error.empty()) return error;
      }
      one.start.ensure_path({"metadata", "namespace"}) = entry->second;
      one.object.ensure_path({"metadata", "namespace"}) = entry->second;
    }
    if (std::string why = store(one); !why.empty()) {
      not_stored_[one.label] = why;
      continue;
    }
    const bool is_of_the_world = std::any_of(world_.queues.begin(), world_.queues.end(), [&](const json::Value& queue) {
      return one.hook->resource == "queues" && name_in(queue) == name_in(one.start);
    });
    if (one.ns().empty() && !is_of_the_world) leftovers_.push_back(one);
  }
  return "";
}

std::string CaseDriver::prepare() {
  std::string error = prepare_world();
  if (error.empty()) error = prepare_updates();
  if (error.empty()) note_server_objects();
  return error;
}

// What the server refuses now may be mended by a mutating hook: then the hook sees what was written.
void CaseDriver::note_server_objects() {
  std::vector<const RuleCase*> writes;
  for (const RuleCase& one : cases_) {
    if (is_written(one) && one.operation != Operation::Delete) writes.push_back(&one);
  }
  const auto responses = call_all(writes);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (!responses[i].ok()) continue;
    auto object = json::Value::parse(*responses[i]->body);
    if (object.ok()) by_server_[writes[i]->label] = std::move(*object);
  }
}

CaseDriver::Expected CaseDriver::expect(const RuleBench& bench, const RuleCase& one) const {
  Expected expected;
  ReviewRequest request = request_of(one);
  const auto made = by_server_.find(one.label);
  expected.object = made == by_server_.end() ? one.object : made->second;
  const json::Value written = expected.object;
  if (one.operation != Operation::Delete) request.object = &written;
  const Hook* mutate = find_hook(one.hook->group, one.hook->resource, true);
  if (mutate != nullptr && mutate->takes(one.operation)) {
    const ReviewAnswer answer = webhooks::review(*mutate, bench.context(), request);
    expected.warnings = answer.warnings;
    if (!answer.allowed) return {false, denial(*mutate, answer), {}, expected.warnings};
    if (auto patched = json::apply_json_patch(expected.object, json::Value(answer.patch)); patched.ok())
      expected.object = std::move(*patched);
  }
  const Hook* validate = find_hook(one.hook->group, one.hook->resource, false);
  if (validate == nullptr || !validate->takes(one.operation)) return expected;
  if (one.operation != Operation::Delete) {
    keep_status(expected.object, one.operation == Operation::Update ? &one.start : nullptr);
    request.object = &expected.object;
  }
  const ReviewAnswer answer = webhooks::review(*validate, bench.context(), request);
  for (const std::string& warning : answer.warnings) expected.warnings.push_back(warning);
  if (answer.allowed) return expected;
  return {false, denial(*validate, answer), {}, expected.warnings};
}

void CaseDriver::compare_denial(const RuleCase& one, const Expected& expected, const Error& error) {
  if (!is_denial(error)) {
    const bool is_judgement = error.code == 422 || error.code == 400;
    if ((one.passes && one.unreachable.empty()) || !is_judgement)
      return problem(one, "refused by the server: " + error.to_string());
    report_.refused_before.push_back(one.label);
    return;
  }
  if (expected.allowed) return problem(one, "should pass, but: " + error.message);
  if (error.message != expected.message || error.code != 400) {
    return problem(one, "code " + std::to_string(error.code) + "\n  says:     " + error.message +
                            "\n  expected: " + expected.message);
  }
  ++report_.denied;
}

void CaseDriver::compare_object(const RuleCase& one, const Expected& expected, const kube::Response& response) {
  if (!expected.allowed) return problem(one, "is accepted, but: " + expected.message);
  for (const std::string& warning : expected.warnings) {
    if (std::find(response.warnings.begin(), response.warnings.end(), warning) == response.warnings.end())
      problem(one, "was not warned: " + warning);
  }
  ++(one.passes ? report_.stored : report_.without_words);
  if (one.operation == Operation::Delete) return;
  const auto actual = json::Value::parse(*response.body);
  if (!actual.ok()) return problem(one, actual.error().message);
  const auto compare = [&](std::initializer_list<std::string_view> path, const std::string& place) {
    const json::Value* wanted = expected.object.find_path(path);
    if (wanted == nullptr) return;
    const json::Value* found = actual->find_path(path);
    const json::Value nothing{json::Object()};
    const std::string where = missing_in(found == nullptr ? nothing : *found, *wanted, place);
    if (!where.empty()) problem(one, where);
  };
  compare({"spec"}, "spec");
  compare({"metadata", "annotations"}, "metadata.annotations");
}

bool CaseDriver::is_written(const RuleCase& one) const { return one.is_sent() && !not_stored_.contains(one.label); }

void CaseDriver::judge(const RuleBench& bench, const RuleCase& one, const Result<kube::Response>& response) {
  const Expected expected = expect(bench, one);
  if (expected.allowed != one.passes && one.unreachable.empty()) {
    return problem(one, expected.allowed ? "an API server makes something of it that passes; mark it unreachable"
                                         : "refused on an API server: " + expected.message);
  }
  if (response.ok()) {
    compare_object(one, expected, *response);
  } else {
    compare_denial(one, expected, response.error());
  }
}

void CaseDriver::ask_directly(const RuleBench& bench, const RuleCase& one, const AskReview& ask) {
  if (!ask) return;
  const ReviewAnswer expected = bench.review(one);
  const auto answer = ask(*one.hook, request_of(one));
  ++report_.asked;
  if (!answer.ok()) return problem(one, "the admission server: " + answer.error().message);
  if (answer->allowed != expected.allowed || answer->message != expected.message || answer->patch != expected.patch ||
      answer->warnings != expected.warnings) {
    return problem(one, "the admission server says \"" + answer->message + "\" and patches " +
                            json::Value(answer->patch).to_text() + "; expected \"" + expected.message + "\" and " +
                            json::Value(expected.patch).to_text());
  }
}

bool CaseDriver::is_called(const RuleBench& bench, const Setting& setting, const Hook& hook) {
  for (const RuleCase& one : cases_) {
    if (one.hook != &hook || one.operation != Operation::Create || !one.is_sent() || !one.unreachable.empty()) continue;
    if (Setting{one.options, one.resource_groups} != setting || one.passes != hook.is_mutating) continue;
    if (hook.is_mutating && bench.review(one).patch.empty()) continue;
    const CaseReport before = report_;
    const auto response = client_.call(write_of(one), {});
    // What an update starts from is still in the way: this case proves nothing.
    if (!response.ok() && response.error().is(Reason::AlreadyExists)) continue;
    judge(bench, one, response);
    const CaseReport after = std::exchange(report_, before);
    if (after.problems.size() != before.problems.size()) return false;
    if (after.refused_before.size() == before.refused_before.size())
      return true;  // else it was not asked about this one
  }
  return true;
}

bool CaseDriver::are_hooks_called(const Setting& setting) {
  const RuleBench bench(world_, setting.options, setting.resource_groups);
  const std::span<const Hook> hooks = all_hooks();
  return std::all_of(hooks.begin(), hooks.end(), [&](const Hook& hook) { return is_called(bench, setting, hook); });
}

void CaseDriver::run_all(const RuleBench& bench, const Setting& setting, bool creates, const AskReview& ask) {
  std::vector<const RuleCase*> writes;
  for (const RuleCase& one : cases_) {
    if ((one.operation == Operation::Create) != creates) continue;
    if (Setting{one.options, one.resource_groups} != setting) continue;
    // What an update starts from is stored as the server makes it: it may be judged otherwise there, which judge()
    // says.
    const bool is_as_written = one.operation != Operation::Update;
    if (const ReviewAnswer own = bench.review(one); is_as_written && own.allowed != one.passes) {
      problem(one, "beside the cases of all other files it is judged otherwise: " + own.message);
    } else if (is_written(one)) {
      writes.push_back(&one);
    } else if (one.is_sent()) {
      report_.refused_before.push_back(one.label);
    } else {
      ++report_.not_sent;
    }
    ask_directly(bench, one, ask);
  }
  const auto responses = call_all(writes);
  for (std::size_t i = 0; i < writes.size(); ++i) judge(bench, *writes[i], responses[i]);
}

void CaseDriver::run(const Setting& setting, const AskReview& ask) {
  const RuleBench bench(world_, setting.options, setting.resource_groups);
  if (!bench.problem().empty()) report_.problems.push_back(bench.problem());
  run_all(bench, setting, false, ask);
  for (const RuleCase& one : leftovers_) (void)client_.call(request_about(kube::Verb::Delete, one), {});
  leftovers_.clear();
  run_all(bench, setting, true, ask);
}

}  // namespace basalt::webhooks::testing
