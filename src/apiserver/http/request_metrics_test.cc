#include "apiserver/http/request_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

class SilentResponder final : public net::Responder {
 public:
  void respond(int, net::Headers, std::shared_ptr<const std::string>) override {}
  void start(int, net::Headers) override {}
  std::optional<std::size_t> write(std::shared_ptr<const std::string>) override { return 0; }
  void finish() override {}
  void abort() override {}
  [[nodiscard]] bool is_closed() const override { return false; }
  void on_close(std::function<void()>) override {}
};

class RequestMetricsTest : public ::testing::Test {
 protected:
  RequestMetricsTest() : metrics_(std::make_shared<RequestMetrics>(*runtime_)) {
    server_ = *ApiServer::open(*runtime_, Logger(), ApiServer::Options());
    EXPECT_TRUE(server_->start().ok());
  }
  ~RequestMetricsTest() override { server_->stop(); }

  std::shared_ptr<net::Responder> begin(const std::string& method, const std::string& verb, const std::string& name) {
    auto labels = std::make_shared<RequestLabels>();
    labels->set_method(method);
    AccessRequest access;
    access.verb = verb;
    access.ns = "default";
    access.name = name;
    labels->set(*server_->types()->find("", "v1", "configmaps"), access, false, false);
    return metrics_->counted(std::make_shared<SilentResponder>(), labels);
  }
  // The value of the one series whose line begins with the name and has all the labels; -1 if there is none.
  double value(const std::string& name, const std::vector<std::string>& labels) {
    const std::string text = metrics_->to_text(*server_);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      bool fits = line.starts_with(name + "{");
      for (const std::string& label : labels) fits = fits && line.find(label) != std::string::npos;
      if (fits) return std::stod(line.substr(line.rfind(' ') + 1));
      at = end + 1;
    }
    return -1;
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::shared_ptr<RequestMetrics> metrics_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(RequestMetricsTest, ARequestIsCountedOnceWithItsCode) {
  auto responder = begin("POST", "create", "");
  EXPECT_EQ(value("apiserver_current_inflight_requests", {"mutating"}), 1);
  responder->respond(201, {}, std::string("{}"));
  responder.reset();
  EXPECT_EQ(value("apiserver_current_inflight_requests", {"mutating"}), 0);
  EXPECT_EQ(value("apiserver_request_total", {"code=\"201\"", "verb=\"POST\"", "resource=\"configmaps\"",
                                              "scope=\"namespace\"", "version=\"v1\""}),
            1);
  EXPECT_EQ(value("apiserver_request_duration_seconds_count", {"verb=\"POST\"", "resource=\"configmaps\""}), 1);
  begin("GET", "get", "a")->respond(404, {}, std::string("{}"));
  EXPECT_EQ(value("apiserver_request_total", {"code=\"404\"", "verb=\"GET\"", "scope=\"resource\""}), 1);
}

TEST_F(RequestMetricsTest, AWatchRunsLongAndHasNoDuration) {
  auto responder = begin("GET", "watch", "");
  responder->start(200, {});
  EXPECT_EQ(value("apiserver_longrunning_requests", {"verb=\"WATCH\""}), 1);
  EXPECT_EQ(value("apiserver_current_inflight_requests", {"readOnly"}), 0);
  responder->finish();
  EXPECT_EQ(value("apiserver_longrunning_requests", {"verb=\"WATCH\""}), 0);
  EXPECT_EQ(value("apiserver_request_total", {"code=\"200\"", "verb=\"WATCH\""}), 1);
  EXPECT_EQ(value("apiserver_request_duration_seconds_count", {"verb=\"WATCH\""}), -1);
}

TEST_F(RequestMetricsTest, OneThatIsNeverAnsweredAndOneOfAStrangeMethod) {
  begin("GET", "list", "").reset();
  EXPECT_EQ(value("apiserver_request_total", {"code=\"500\"", "verb=\"LIST\""}), 1);
  RequestLabels labels;
  labels.set_method("BREW");
  EXPECT_EQ(labels.verb, "other");
}

TEST_F(RequestMetricsTest, TheStoreTellsWhatItHolds) {
  EXPECT_GE(value("apiserver_storage_objects", {"resource=\"namespaces\""}), 4);
  EXPECT_GT(value("apiserver_storage_size_bytes", {}), 0);
}

}  // namespace
}  // namespace basalt::apiserver
