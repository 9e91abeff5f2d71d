#include "kube/credentials.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "base/encoding.h"
#include "base/strings.h"

namespace basalt::kube {
namespace {

class FixedCredentials final : public Credentials {
 public:
  explicit FixedCredentials(Credential credential) : credential_(std::move(credential)) {}
  Result<Credential> get(const rt::StopToken&) override { return credential_; }
  bool refresh(const Credential&) override { return false; }

 private:
  const Credential credential_;
};

class TokenFileCredentials final : public Credentials {
 public:
  TokenFileCredentials(rt::Runtime& runtime, std::string path) : runtime_(runtime), path_(std::move(path)) {}

  Result<Credential> get(const rt::StopToken&) override {
    // Tokens of service accounts live for an hour and are replaced after 48 minutes; client-go reads once a minute.
    constexpr rt::Duration kReadAgain = std::chrono::minutes(1);
    const rt::Instant now = runtime_.now();
    {
      const rt::MutexLock lock(mutex_);
      if (!credential_.authorization.empty() && now < read_again_) return credential_;
    }
    Result<std::string> token = read();
    const rt::MutexLock lock(mutex_);
    if (token.ok()) {
      credential_.authorization = "Bearer " + *token;
      read_again_ = now + kReadAgain;
    } else if (credential_.authorization.empty()) {
      return token.error();
    }
    return credential_;
  }

  bool refresh(const Credential& refused) override {
    Result<std::string> token = read();
    const rt::MutexLock lock(mutex_);
    if (!token.ok()) return false;
    credential_.authorization = "Bearer " + *token;
    return credential_.authorization != refused.authorization;
  }

 private:
  [[nodiscard]] Result<std::string> read() const {
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream text;
    if (file) text << file.rdbuf();
    std::string token(base::trim(text.str()));
    if (!file) {
      return Error::invalid_input("the token file " + base::quote(path_) +
                                  " cannot be read; check that it exists and that this user may read it");
    }
    if (token.empty()) return Error::invalid_input("the token file " + base::quote(path_) + " is empty");
    return token;
  }

  rt::Runtime& runtime_;
  const std::string path_;
  rt::Mutex mutex_;
  Credential credential_ BASALT_GUARDED_BY(mutex_);
  rt::Instant read_again_ BASALT_GUARDED_BY(mutex_){};
};

}  // namespace

std::shared_ptr<Credentials> no_credentials() { return std::make_shared<FixedCredentials>(Credential()); }

std::shared_ptr<Credentials> bearer_token(std::string token) {
  return std::make_shared<FixedCredentials>(Credential{.authorization = "Bearer " + std::move(token)});
}

std::shared_ptr<Credentials> bearer_token_file(rt::Runtime& runtime, std::string path) {
  return std::make_shared<TokenFileCredentials>(runtime, std::move(path));
}

std::shared_ptr<Credentials> basic_auth(const std::string& username, const std::string& password) {
  return std::make_shared<FixedCredentials>(
      Credential{.authorization = "Basic " + base::base64_encode(username + ":" + password)});
}

}  // namespace basalt::kube
