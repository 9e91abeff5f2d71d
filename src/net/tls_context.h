#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "net/http_server.h"
#include "net/pem_source.h"
#include "rt/runtime.h"

using SSL = struct ssl_st;
using SSL_CTX = struct ssl_ctx_st;

namespace basalt::net {

// The server's side of TLS: one OpenSSL context, made anew when the certificate's files change. Used by the thread that
// accepts connections.
class TlsContext {
 public:
  static Result<std::unique_ptr<TlsContext>> make(rt::Runtime& runtime, Logger log, const TlsServerOptions& options,
                                                  bool offers_http2);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // For one connection; the caller owns it. Looks at the files at most once a second.
  [[nodiscard]] SSL* new_connection();

 private:
  TlsContext(rt::Runtime& runtime, Logger log, TlsServerOptions options, bool offers_http2);
  [[nodiscard]] Done rebuild();
  void refresh();

  rt::Runtime& runtime_;
  const Logger log_;
  const TlsServerOptions options_;
  const bool offers_http2_;
  PemSource pem_;
  SSL_CTX* context_ = nullptr;
  rt::Instant checked_at_{};
};

}  // namespace basalt::net
