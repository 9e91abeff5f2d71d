#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/encoding.h"
#include "json/patch.h"
#include "json/value.h"
#include "webhooks/cluster_view.h"
#include "webhooks/resource_groups.h"
#include "webhooks/review_codec.h"
#include "webhooks/server.h"

namespace {

using namespace basalt;

// A small cluster: enough for every rule to find something.
struct World {
  World() {
    for (const std::string_view text :
         {R"({"metadata":{"name":"root"},"status":{"state":"Open"}})",
          R"({"metadata":{"name":"default"},"spec":{"parent":"root"},"status":{"state":"Open"}})",
          R"({"metadata":{"name":"a"},"spec":{"parent":"root","capability":{"cpu":"4"},"deserved":{"cpu":"2"}}})",
          R"({"metadata":{"name":"b"},"spec":{"parent":"a"},"status":{"allocated":{"pods":"1"}}})"}) {
      BASALT_CHECK(cluster.put_queue(json::Value::parse(text).value()).ok());
    }
    cluster.put_namespace("team", {{"scheduling.volcano.sh/queue-name", "a"}});
    cluster.set_priority_classes({"high"});
    BASALT_CHECK(groups.replace("resourceGroups: [{resourceGroup: g, labels: {a: b}, tolerations: [{key: k}]}]").ok());
    options.scheduling_gates_queue_admission = true;
    for (const webhooks::Hook& hook : webhooks::all_hooks()) hooks.push_back(&hook);
  }
  webhooks::RuleOptions options;
  webhooks::StoredClusterView cluster;
  webhooks::ResourceGroups groups;
  std::vector<const webhooks::Hook*> hooks;
};

// A patch that we send can be applied to what we were asked about.
void check_patch(std::string_view encoded, const webhooks::DecodedReview& question) {
  const auto text = base::base64_decode(encoded);
  BASALT_CHECK(text.has_value());
  const auto patch = json::Value::parse(*text);
  BASALT_CHECK(patch.ok());
  const auto result = json::apply_json_patch(*question.request.object, *patch);
  BASALT_CHECK(result.ok());
  BASALT_CHECK(result->is_object());
}

}  // namespace

// Any bytes get a clear answer: 400 for what is no review, else a review with the uid of the question, in which a
// denial has words and a patch fits the object. The first byte chooses the path.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const World world;
  if (size == 0 || size > (1u << 16)) return 0;
  const webhooks::Hook& hook = *world.hooks[data[0] % world.hooks.size()];
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const webhooks::RuleContext context{world.options, world.cluster, &world.groups, {}};
  const webhooks::HttpAnswer answer =
      webhooks::answer_http(world.hooks, context, {"POST", hook.path, "application/json", body});
  const auto question = webhooks::decode_review(body);
  BASALT_CHECK(answer.status == (question.ok() ? 200 : 400));
  BASALT_CHECK(!answer.body.empty());
  if (!question.ok()) return 0;
  const auto review = json::Value::parse(answer.body);
  BASALT_CHECK(review.ok());
  BASALT_CHECK(review->string_at({"response", "uid"}) == question->uid);
  const json::Value* allowed = review->find_path({"response", "allowed"});
  BASALT_CHECK(allowed != nullptr && allowed->is_bool());
  if (!allowed->as_bool()) {
    BASALT_CHECK(!review->string_at({"response", "status", "message"}).empty());
    BASALT_CHECK(review->find_path({"response", "patch"}) == nullptr);
  } else if (const std::string_view patch = review->string_at({"response", "patch"}); !patch.empty()) {
    check_patch(patch, *question);
  }
  return 0;
}
