#pragma once

// port::Http over libcurl: HTTP/1.1 exchanges on pooled connections. Bytes that arrive are
// collected per exchange and handed to sinks from CurlPoller::perform(), never from inside libcurl,
// so a sink may start and cancel whatever it likes. A started request leaves at once if a
// connection is open and its lane has room, and before the loop waits again otherwise. Transfers
// must not outlive the CurlHttp, nor the CurlHttp its CurlPoller.

#include <chrono>
#include <memory>

#include "os/net/curl_poller.h"
#include "port/http.h"

namespace moonfence::os {

struct HttpLimits {
  // Exchanges that run at once; more wait in the order of their start. Watches are not bounded.
  std::size_t writes = 192;
  std::size_t bulk = 4;
  std::size_t endpoints = 16;
  std::size_t guests = 4;
  Duration connect_timeout = std::chrono::seconds(4);  // name, TCP, TLS; over all addresses
  std::size_t head_bytes = 64U << 10U;                 // of an answer, in total
};

class CurlHttp final : public port::Http {
 public:
  explicit CurlHttp(CurlPoller& poller, HttpLimits limits = {});
  CurlHttp(const CurlHttp&) = delete;
  CurlHttp& operator=(const CurlHttp&) = delete;
  ~CurlHttp() override;

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override;
  void use_tls(port::TlsSettings settings) override;
  // Queued exchanges are not running: they go out on fresh connections.
  void drop_connections() override;

  [[nodiscard]] std::size_t running(port::Lane lane) const;
  [[nodiscard]] std::size_t queued(port::Lane lane) const;

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace moonfence::os
