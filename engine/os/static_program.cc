// Part of the programs only where they are linked statically (MOONFENCE_STATIC).
//
// The C library finds hosts as /etc/nsswitch.conf says, and loads a plugin for all but files and
// DNS; OpenSSL loads what its openssl.cnf names. Those of a computer are made for that computer's C
// library: in a program that brought another one they crash it. So names come from /etc/hosts and
// DNS, and cryptography from OpenSSL's own code, wherever it runs.

#include <nss.h>
#include <openssl/crypto.h>

namespace {

[[gnu::constructor]] void load_no_plugins() {
  __nss_configure_lookup("hosts", "files dns");
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

}  // namespace
