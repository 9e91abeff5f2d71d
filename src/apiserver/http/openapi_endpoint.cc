#include "apiserver/http/openapi_endpoint.h"

#include <utility>

#include "apiserver/http/accept.h"
#include "apiserver/http/openapi.h"
#include "apiserver/http/openapi_protobuf.h"
#include "base/hash.h"
#include "base/strings.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kJson = "application/json";

std::optional<json::Value> stored_crd(ApiServer& server, const std::string& name) {
  Store& store = server.store();
  const EntryRef entry = store.get(store.resource("apiextensions.k8s.io/customresourcedefinitions"), "", name);
  if (!entry) return std::nullopt;
  auto crd = json::Value::parse(*entry->object());
  if (!crd.ok()) return std::nullopt;
  return std::move(*crd);
}

// The form to answer in; only the older document has two.
Result<OpenApiForm> form_of(std::string_view path, std::string_view accept) {
  if (path != kOpenApiV2Path) return OpenApiForm::Json;
  constexpr std::string_view kOffered[] = {kJson, kOpenApiProtobuf, kOpenApiProtobufOlder};
  BASALT_TRY(const std::size_t chosen, choose_media_type(accept, kOffered));
  return chosen == 0 ? OpenApiForm::Json : OpenApiForm::Protobuf;
}

}  // namespace

Result<std::optional<OpenApiEndpoint::Answer>> OpenApiEndpoint::answer(std::string_view path, std::string_view accept,
                                                                       std::string_view if_none_match) {
  if (!path.starts_with("/openapi/")) return std::optional<Answer>();
  BASALT_TRY(const OpenApiForm form, form_of(path, accept));
  Answer answer;
  answer.content_type = form == OpenApiForm::Json ? kJson : kOpenApiProtobuf;
  const std::string document = answer.content_type + " " + std::string(path);
  // The types before the CRDs: a CRD that changes in between changes the types, too, and then the tag is forgotten.
  const auto types = server_.types();
  answer.tag = known_tag(types, document);
  if (!answer.tag.empty() && if_none_match.find(answer.tag) != std::string_view::npos) {
    answer.status = 304;
    return std::optional(std::move(answer));
  }
  auto made =
      openapi_document(*types, path, [this](const std::string& name) { return stored_crd(server_, name); }, form);
  if (!made) return std::optional<Answer>();
  answer.body = std::move(*made);
  answer.tag = base::quote(base::sha256_hex(answer.body));
  keep_tag(types, document, answer.tag);
  if (if_none_match.find(answer.tag) != std::string_view::npos) {
    answer.status = 304;
    answer.body.clear();
  }
  return std::optional(std::move(answer));
}

std::string OpenApiEndpoint::known_tag(const std::shared_ptr<const TypeTable>& types, const std::string& document) {
  rt::MutexLock lock(mutex_);
  if (tagged_types_ != types) return {};
  const auto found = tags_.find(document);
  return found == tags_.end() ? std::string() : found->second;
}

void OpenApiEndpoint::keep_tag(const std::shared_ptr<const TypeTable>& types, const std::string& document,
                               const std::string& tag) {
  rt::MutexLock lock(mutex_);
  if (tagged_types_ != types) {
    tagged_types_ = types;
    tags_.clear();
  }
  tags_[document] = tag;
}

}  // namespace basalt::apiserver
