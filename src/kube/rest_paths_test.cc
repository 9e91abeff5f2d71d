#include <gtest/gtest.h>

#include "kube/rest_client.h"

namespace basalt::kube {
namespace {

const Resource kPods{"", "v1", "pods"};
const Resource kJobs{"batch.volcano.sh", "v1alpha1", "jobs"};
const Resource kNodes{"", "v1", "nodes"};

TEST(RestPaths, NameEveryVerbAndSubresource) {
  EXPECT_EQ(path_of(Request{.verb = Verb::Get, .resource = kPods, .ns = "a", .name = "b"}),
            "/api/v1/namespaces/a/pods/b");
  EXPECT_EQ(path_of(Request{.verb = Verb::Get, .resource = kNodes, .name = "n", .resource_version = "0"}),
            "/api/v1/nodes/n?resourceVersion=0");
  EXPECT_EQ(path_of(Request{.verb = Verb::Create,
                            .resource = kJobs,
                            .ns = "a",
                            .field_manager = "vc controller",
                            .dry_run = true,
                            .field_validation = "Strict"}),
            "/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs?fieldManager=vc%20controller&fieldValidation=Strict&"
            "dryRun=All");
  EXPECT_EQ(path_of(Request{.verb = Verb::Patch,
                            .resource = kJobs,
                            .ns = "a",
                            .name = "j",
                            .subresource = "status",
                            .patch_type = PatchType::Apply,
                            .field_manager = "m",
                            .force = true}),
            "/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs/j/status?fieldManager=m&force=true");
  EXPECT_EQ(path_of(Request{.verb = Verb::Create, .resource = kPods, .ns = "a", .name = "b", .subresource = "binding"}),
            "/api/v1/namespaces/a/pods/b/binding");
  EXPECT_EQ(path_of(Request{.verb = Verb::DeleteCollection, .resource = kPods, .ns = "a", .label_selector = "x=y,z"}),
            "/api/v1/namespaces/a/pods?labelSelector=x%3Dy%2Cz");
  EXPECT_EQ(path_of(Request{.verb = Verb::Get, .resource = kPods, .ns = "../..", .name = "a/b?c"}),
            "/api/v1/namespaces/..%2F../pods/a%2Fb%3Fc");
}

TEST(RestPaths, ListsAndWatches) {
  EXPECT_EQ(path_of(ListRequest{.resource = kPods}), "/api/v1/pods");
  EXPECT_EQ(path_of(ListRequest{.resource = kPods,
                                .ns = "a",
                                .label_selector = "x",
                                .field_selector = "spec.nodeName=n",
                                .resource_version = "5",
                                .resource_version_match = "Exact",
                                .limit = 500}),
            "/api/v1/namespaces/a/pods?labelSelector=x&fieldSelector=spec.nodeName%3Dn&limit=500&resourceVersion=5&"
            "resourceVersionMatch=Exact");
  EXPECT_EQ(path_of(ListRequest{.resource = kPods, .resource_version = "5", .limit = 2, .continue_token = "t=="}),
            "/api/v1/pods?limit=2&continue=t%3D%3D");
  EXPECT_EQ(
      path_of(WatchRequest{.resource = kPods, .resource_version = "7", .timeout = std::chrono::milliseconds(1500)}),
      "/api/v1/pods?watch=true&resourceVersion=7&allowWatchBookmarks=true&timeoutSeconds=2");
  EXPECT_EQ(path_of(WatchRequest{.resource = kPods, .send_initial_events = true}),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
            "timeoutSeconds=600");
}

TEST(RestPaths, DeleteOptions) {
  EXPECT_EQ(delete_options_of({.verb = Verb::Delete, .resource = kPods}), "");
  EXPECT_EQ(delete_options_of({.verb = Verb::Delete,
                               .resource = kPods,
                               .dry_run = true,
                               .propagation = Propagation::Foreground,
                               .grace_period_seconds = 0,
                               .precondition_uid = "u",
                               .precondition_resource_version = "8"}),
            R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u",)"
            R"("resourceVersion":"8"},"propagationPolicy":"Foreground","dryRun":["All"]})");
}

TEST(RestPaths, SplitsListsAndTypesTheirItems) {
  const auto page = split_list(
      R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10","continue":"c","remainingItemCount":3},
         "items":[{"metadata":{"name":"a"}},{"kind":"Pod","apiVersion":"v1","metadata":{}}, {} ]})");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->resource_version, "10");
  EXPECT_EQ(page->continue_token, "c");
  EXPECT_EQ(page->remaining_item_count, 3);
  ASSERT_EQ(page->items.size(), 3u);
  EXPECT_EQ(*page->items[0], R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}})");
  EXPECT_EQ(*page->items[1], R"({"kind":"Pod","apiVersion":"v1","metadata":{}})");
  EXPECT_EQ(*page->items[2], R"({"kind":"Pod","apiVersion":"v1"})");
  // Items before the kind is known, and none at all.
  EXPECT_EQ(*split_list(R"({"items":[{"a":1}],"apiVersion":"g/v1","kind":"JobList"})")->items[0],
            R"({"kind":"Job","apiVersion":"g/v1","a":1})");
  // Custom resources are sorted by their members: the type may come later.
  const std::string command = R"({"action":"AbortJob","apiVersion":"g/v1","kind":"Command","metadata":{}})";
  EXPECT_EQ(*split_list(R"({"kind":"CommandList","apiVersion":"g/v1","items":[)" + command + "]}")->items[0], command);
  EXPECT_TRUE(split_list(R"({"kind":"PodList","items":null})")->items.empty());
  EXPECT_FALSE(split_list(R"({"kind":"Pod"})").ok());
  EXPECT_FALSE(split_list(R"({"kind":"PodList","items":[1]})").ok());
  EXPECT_FALSE(split_list("<html>").ok());
}

}  // namespace
}  // namespace basalt::kube
