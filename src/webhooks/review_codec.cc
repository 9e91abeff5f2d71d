#include "webhooks/review_codec.h"

#include "base/encoding.h"
#include "base/strings.h"
#include "json/writer.h"
#include "webhooks/fields.h"

namespace basalt::webhooks {
namespace {

constexpr std::string_view kVersion = "admission.k8s.io/v1";
constexpr std::size_t kUidBytesMax = 256;
// API servers log and forward the message; one that fills screens helps nobody.
constexpr std::size_t kMessageBytesMax = 16u << 10;
constexpr std::size_t kWarningBytesMax = 1'000;
constexpr std::size_t kWarningsMax = 20;

Error bad(std::string message) { return Error::make(Reason::BadRequest, std::move(message)); }

Result<Operation> read_operation(std::string_view text) {
  for (const Operation operation : {Operation::Create, Operation::Update, Operation::Delete, Operation::Connect}) {
    if (text == to_string(operation)) return operation;
  }
  return bad("request.operation " + shown(text) + " is none of CREATE, UPDATE, DELETE, CONNECT");
}

void read_user(const json::Value& request, ReviewUser& user) {
  const json::Value* info = member(request, "userInfo");
  if (info == nullptr) return;
  user.name = text_at(*info, "username");
  user.uid = text_at(*info, "uid");
  for (const json::Value& group : list_at(*info, "groups")) {
    if (group.is_string()) user.groups.push_back(group.as_string());
  }
  user.extra = member(*info, "extra");
}

}  // namespace

Result<DecodedReview> decode_review(std::string_view body) {
  DecodedReview review;
  // The last of two equal keys wins, as in the API server, which wrote this.
  auto parsed = json::Value::parse(body, {.depth_max = kReviewDepthMax, .duplicate_keys_are_errors = false});
  if (!parsed.ok()) return bad("the body is not an AdmissionReview: " + parsed.error().message);
  review.document = std::make_unique<json::Value>(std::move(*parsed));
  const json::Value& document = *review.document;
  if (!document.is_object()) return bad("the body is not an AdmissionReview: it is not an object");
  if (text_at(document, "kind") != "AdmissionReview" || text_at(document, "apiVersion") != kVersion) {
    return bad("expected kind AdmissionReview of " + std::string(kVersion) + ", found kind " +
               shown(text_at(document, "kind")) + " of " + shown(text_at(document, "apiVersion")) +
               "; set admissionReviewVersions: [v1] in the webhook configuration");
  }
  const json::Value* question = member(document, "request");
  if (question == nullptr || !question->is_object()) return bad("the AdmissionReview has no request");
  review.uid = text_at(*question, "uid");
  if (review.uid.empty() || review.uid.size() > kUidBytesMax) return bad("request.uid is missing or too long");
  ReviewRequest& request = review.request;
  BASALT_TRY(request.operation, read_operation(text_at(*question, "operation")));
  if (const json::Value* kind = member(*question, "kind")) request.kind = text_at(*kind, "kind");
  if (const json::Value* resource = member(*question, "resource")) {
    request.group = text_at(*resource, "group");
    request.version = text_at(*resource, "version");
    request.resource = text_at(*resource, "resource");
  }
  request.subresource = text_at(*question, "subResource");
  request.ns = text_at(*question, "namespace");
  request.name = text_at(*question, "name");
  request.dry_run = flag_at(*question, "dryRun");
  read_user(*question, request.user);
  request.object = member(*question, "object");
  request.old_object = member(*question, "oldObject");
  return review;
}

std::string encode_answer(std::string_view uid, const ReviewAnswer& answer) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  writer.key("kind");
  writer.string("AdmissionReview");
  writer.key("apiVersion");
  writer.string(kVersion);
  writer.key("response");
  writer.begin_object();
  writer.key("uid");
  writer.string(uid);
  writer.key("allowed");
  writer.boolean(answer.allowed);
  if (!answer.allowed) {
    writer.key("status");
    writer.begin_object();
    writer.key("status");
    writer.string("Failure");
    writer.key("message");
    writer.string(base::ellipsize(answer.message, kMessageBytesMax));
    if (!answer.reason.empty()) {
      writer.key("reason");
      writer.string(answer.reason);
    }
    if (!answer.causes.empty()) {
      writer.key("details");
      writer.begin_object();
      writer.key("causes");
      writer.begin_array();
      for (const Cause& cause : answer.causes) {
        writer.begin_object();
        writer.key("reason");
        writer.string(cause.type);
        writer.key("message");
        writer.string(base::ellipsize(cause.message, kWarningBytesMax));
        if (!cause.field.empty()) {
          writer.key("field");
          writer.string(cause.field);
        }
        writer.end_object();
      }
      writer.end_array();
      writer.end_object();
    }
    writer.key("code");
    writer.integer(answer.code);
    writer.end_object();
  } else if (!answer.patch.empty()) {
    writer.key("patchType");
    writer.string("JSONPatch");
    writer.key("patch");
    writer.string(base::base64_encode(json::Value(answer.patch).to_text()));
  }
  if (!answer.warnings.empty()) {
    writer.key("warnings");
    writer.begin_array();
    for (std::size_t i = 0; i < std::min(answer.warnings.size(), kWarningsMax); ++i) {
      writer.string(base::ellipsize(answer.warnings[i], kWarningBytesMax));
    }
    writer.end_array();
  }
  writer.end_object();
  writer.end_object();
  return out;
}

std::string encode_review(std::string_view uid, const ReviewRequest& request) {
  json::Array groups;
  for (const std::string& group : request.user.groups) groups.emplace_back(group);
  json::Object user{{"username", request.user.name}, {"groups", std::move(groups)}};
  if (!request.user.uid.empty()) user.set("uid", request.user.uid);
  if (request.user.extra != nullptr) user.set("extra", *request.user.extra);
  json::Object question{
      {"uid", uid},
      {"kind", json::Object{{"group", request.group}, {"version", request.version}, {"kind", request.kind}}},
      {"resource",
       json::Object{{"group", request.group}, {"version", request.version}, {"resource", request.resource}}},
      {"namespace", request.ns},
      {"name", request.name},
      {"operation", to_string(request.operation)},
      {"userInfo", std::move(user)},
      {"dryRun", request.dry_run}};
  if (!request.subresource.empty()) question.set("subResource", request.subresource);
  if (request.object != nullptr) question.set("object", *request.object);
  if (request.old_object != nullptr) question.set("oldObject", *request.old_object);
  return json::Value(
             json::Object{{"kind", "AdmissionReview"}, {"apiVersion", kVersion}, {"request", std::move(question)}})
      .to_text();
}

Result<ReviewAnswer> decode_answer(std::string_view body, std::string_view uid) {
  const auto document = json::Value::parse(body, {.depth_max = kReviewDepthMax, .duplicate_keys_are_errors = false});
  if (!document.ok()) return bad("the answer is not an AdmissionReview: " + document.error().message);
  const json::Value* response = member(*document, "response");
  if (response == nullptr || text_at(*response, "uid") != uid)
    return bad("the answer is not to the question that was asked");
  ReviewAnswer answer;
  answer.allowed = flag_at(*response, "allowed");
  for (const json::Value& warning : list_at(*response, "warnings")) {
    if (warning.is_string()) answer.warnings.push_back(warning.as_string());
  }
  if (!answer.allowed) {
    const json::Value* status = member(*response, "status");
    answer.code = 400;
    if (status == nullptr) return answer;
    answer.message = text_at(*status, "message");
    answer.reason = text_at(*status, "reason");
    answer.code = static_cast<int>(int_at(*status, "code").value_or(400));
    return answer;
  }
  const std::string_view encoded = text_at(*response, "patch");
  if (encoded.empty()) return answer;
  const auto text = base::base64_decode(encoded);
  if (!text) return bad("the patch of the answer is not base64");
  BASALT_TRY(json::Value patch, json::Value::parse(*text, {.depth_max = kReviewDepthMax}));
  if (!patch.is_array()) return bad("the patch of the answer is not a list of operations");
  answer.patch = std::move(patch.as_array());
  return answer;
}

}  // namespace basalt::webhooks
