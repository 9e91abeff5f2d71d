#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/result.h"

// What the files that call OpenSSL share. Included by .cc files of this folder only.

namespace basalt::net {

template <auto Free>
struct OpensslDelete {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, OpensslDelete<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslDelete<EVP_PKEY_free>>;
using KeyContextPtr = std::unique_ptr<EVP_PKEY_CTX, OpensslDelete<EVP_PKEY_CTX_free>>;
using X509Ptr = std::unique_ptr<X509, OpensslDelete<X509_free>>;
using X509StorePtr = std::unique_ptr<X509_STORE, OpensslDelete<X509_STORE_free>>;

// The oldest waiting error of this thread as text, and the queue emptied; `fallback` if there is none.
[[nodiscard]] std::string take_openssl_error(std::string_view fallback);
[[nodiscard]] Error openssl_failure(std::string_view what);  // InvalidInput: "what: reason"

// A read-only BIO over text that must outlive it.
[[nodiscard]] BioPtr bio_over(std::string_view text);
[[nodiscard]] std::string bio_content(BIO* bio);

// Every certificate in the text, in order; InvalidInput if there is none or one is broken.
[[nodiscard]] Result<std::vector<X509Ptr>> parse_certificates(std::string_view pem);
[[nodiscard]] Result<KeyPtr> parse_private_key(std::string_view pem);  // never asks for a passphrase
[[nodiscard]] Result<std::string> certificate_to_pem(X509* certificate);

}  // namespace basalt::net
