#include "net/tls_context.h"

#include <string_view>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "net/openssl_util.h"

namespace basalt::net {
namespace {

using ContextPtr = std::unique_ptr<SSL_CTX, OpensslDelete<SSL_CTX_free>>;

constexpr auto kCheckInterval = std::chrono::seconds(1);
constexpr unsigned char kProtocolsWithHttp2[] = "\x02h2\x08http/1.1";
constexpr unsigned char kProtocolsWithoutHttp2[] = "\x08http/1.1";

int select_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned int offered_size, void* has_http2) {
  const bool offers_http2 = has_http2 != nullptr;
  const unsigned char* ours = offers_http2 ? kProtocolsWithHttp2 : kProtocolsWithoutHttp2;
  const unsigned int ours_size = offers_http2 ? sizeof kProtocolsWithHttp2 - 1 : sizeof kProtocolsWithoutHttp2 - 1;
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_size, ours, ours_size, offered, offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;  // nothing in common: go on without, in HTTP/1.1
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

Done use_certificate(SSL_CTX* context, const PemSource::Texts& texts) {
  BASALT_TRY(const auto chain, parse_certificates(texts.certificate));
  BASALT_TRY(const KeyPtr key, parse_private_key(texts.key));
  if (SSL_CTX_use_certificate(context, chain.front().get()) != 1 || SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return openssl_failure("The certificate cannot be used");
  }
  for (std::size_t i = 1; i < chain.size(); ++i) SSL_CTX_add1_chain_cert(context, chain[i].get());
  return Ok{};
}

Done use_client_authorities(SSL_CTX* context, const std::string& pem, bool is_required) {
  BASALT_TRY(const auto authorities, parse_certificates(pem));
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  for (const X509Ptr& authority : authorities) {
    X509_STORE_add_cert(store, authority.get());
    SSL_CTX_add_client_CA(context, authority.get());
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (is_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nullptr);
  return Ok{};
}

}  // namespace

TlsContext::TlsContext(rt::Runtime& runtime, Logger log, TlsServerOptions options, bool offers_http2)
    : runtime_(runtime),
      log_(std::move(log)),
      options_(std::move(options)),
      offers_http2_(offers_http2),
      pem_({.authorities_pem = options_.client_ca_pem,
            .authorities_file = "",
            .certificate_pem = options_.certificate_pem,
            .certificate_file = options_.certificate_file,
            .key_pem = options_.key_pem,
            .key_file = options_.key_file}),
      checked_at_(runtime.now()) {}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Result<std::unique_ptr<TlsContext>> TlsContext::make(rt::Runtime& runtime, Logger log, const TlsServerOptions& options,
                                                     bool offers_http2) {
  std::unique_ptr<TlsContext> self(new TlsContext(runtime, std::move(log), options, offers_http2));
  BASALT_TRY_DONE(self->pem_.load());
  if (self->pem_.texts().certificate.empty())
    return Error::invalid_input("A TLS server needs a certificate and a key.");
  if (options.client_certificate_required && options.client_ca_pem.empty()) {
    return Error::invalid_input("Client certificates are required but no authority for them is given.");
  }
  BASALT_TRY_DONE(self->rebuild());
  return self;
}

Done TlsContext::rebuild() {
  ContextPtr context(SSL_CTX_new(TLS_server_method()));
  if (!context) return openssl_failure("No TLS context could be made");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                         SSL_OP_IGNORE_UNEXPECTED_EOF);
  // An idle connection gives its buffers back; a write may be repeated from another place.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context.get(), 1);  // a record's head and body in one system call
  SSL_CTX_set_num_tickets(context.get(), 1);
  static constexpr unsigned char kSessionContext[] = "basalt";
  SSL_CTX_set_session_id_context(context.get(), kSessionContext, sizeof kSessionContext - 1);
  // The pointer is only a flag.
  SSL_CTX_set_alpn_select_cb(context.get(), select_protocol, offers_http2_ ? this : nullptr);
  BASALT_TRY_DONE(use_certificate(context.get(), pem_.texts()));
  if (!options_.client_ca_pem.empty()) {
    BASALT_TRY_DONE(
        use_client_authorities(context.get(), options_.client_ca_pem, options_.client_certificate_required));
  }
  SSL_CTX_free(context_);  // connections in progress keep theirs
  context_ = context.release();
  return Ok{};
}

void TlsContext::refresh() {
  const rt::Instant now = runtime_.now();
  if (now - checked_at_ < kCheckInterval) return;
  checked_at_ = now;
  const std::string problem_before = pem_.problem();
  const bool is_new = pem_.refresh();
  if (!pem_.problem().empty() && pem_.problem() != problem_before) {
    log_.warn("the new certificate cannot be used, the old one stays", {{"problem", pem_.problem()}});
  }
  if (!is_new) return;
  const Done rebuilt = rebuild();
  if (rebuilt) {
    log_.info("the server's certificate was read again", {{"file", options_.certificate_file}});
  } else {
    log_.warn("the new certificate cannot be used, the old one stays", {{"problem", rebuilt.error()}});
  }
}

SSL* TlsContext::new_connection() {
  refresh();
  SSL* ssl = SSL_new(context_);
  ERR_clear_error();
  return ssl;
}

}  // namespace basalt::net
