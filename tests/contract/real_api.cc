#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "contract/api_under_test.h"
#include "kube/auth/config.h"
#include "kube/text/frames.h"
#include "os/net/curl_http.h"
#include "os/net/curl_poller.h"
#include "os/system/system_files.h"
#include "support/http_client.h"

namespace moonfence::contract {
namespace {

constexpr Duration kPatience = std::chrono::seconds(15);

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string pem(os::SystemFiles& files, const std::string& text, const std::string& path) {
  return text.empty() && !path.empty() ? files.read(path, 1U << 20U).value() : text;
}

// A loop and its connections. A client certificate belongs to a connection, so those that show none
// need a transport of their own.
struct Transport {
  os::CurlPoller poller;
  os::CurlHttp http{poller};
  loop::Loop loop{poller};

  void run_until(const std::function<bool()>& done, Duration limit) {
    const Moment end = poller.now() + limit;
    while (!done() && poller.now() < end) {
      const loop::Timer tick = loop.after(std::chrono::milliseconds(5), [] {});
      loop.turn();
    }
  }
};

bool shows_token(const Request& request) {
  return std::any_of(request.headers.begin(), request.headers.end(),
                     [](const port::Header& each) { return each.name == "Authorization"; });
}

// Through moonfence's own kubeconfig reader and transport.
class RealApi final : public ApiUnderTest {
 public:
  explicit RealApi(const std::string& kubeconfig) {
    os::SystemFiles files;
    auto config = kube::load_config(files, {.kubeconfig = kubeconfig, .context = {}});
    if (!config) {
      throw std::runtime_error(config.error().message());
    }
    const kube::Connection& connection = config->connection;
    server_ = connection.server;
    port::TlsSettings tls{.ca_pem = pem(files, connection.ca_pem, connection.ca_file)};
    nameless_.http.use_tls(tls);
    tls.certificate_pem =
        pem(files, connection.identity.certificate_pem, connection.identity.certificate_file);
    tls.key_pem = pem(files, connection.identity.key_pem, connection.identity.key_file);
    known_.http.use_tls(std::move(tls));
  }

  Reply send(const Request& request) override {
    return send_to(shows_token(request) ? nameless_ : known_, server_, request);
  }

  std::unique_ptr<Watch> watch(const std::string& target) override {
    return std::make_unique<RealWatch>(*this, target);
  }

  void pass(Duration time) override {
    known_.run_until([] { return false; }, time);
  }

  bool compact() override {
    const std::string etcd = environment("MOONFENCE_CONTRACT_ETCD");
    const Json nodes = send({.target = "/api/v1/nodes?limit=1"}).body;
    const std::string version = nodes.at("metadata").at("resourceVersion");
    return !etcd.empty() && send_to(nameless_, etcd,
                                    {.method = port::Method::Post,
                                     .target = "/v3/kv/compaction",
                                     .body = R"({"physical":true,"revision":)" + version + "}",
                                     .content_type = "application/json"})
                                    .status == 200;
  }

 private:
  class RealWatch final : public Watch, private port::HttpSink {
   public:
    RealWatch(RealApi& api, const std::string& target) : api_(api) {
      transfer_ =
          api.known_.http.start({.url = api.server_ + target, .lane = port::Lane::Watches}, *this);
      api.known_.run_until([this] { return status_ != 0 || ended_; }, kPatience);
      if (status_ != 200) {
        throw std::runtime_error(target + ": " + std::to_string(status_));
      }
    }

    std::optional<Json> next(Duration limit) override {
      std::optional<std::string> line(frames_.next());
      if (!line) {
        api_.known_.run_until([&] { return (line = frames_.next()).has_value() || ended_; }, limit);
      }
      return line ? std::optional(Json::parse(*line, nullptr, false)) : std::nullopt;
    }
    bool ended(Duration limit) override {
      api_.known_.run_until([this] { return ended_; }, limit);
      return ended_ && frames_.pending() == 0;
    }

   private:
    void on_head(const port::HttpHead& head) override { status_ = head.status; }
    void on_body(std::string_view bytes) override { (void)frames_.append(bytes); }
    void on_end(const port::HttpEnd&) override { ended_ = true; }

    RealApi& api_;
    int status_ = 0;
    bool ended_ = false;
    kube::FrameSplitter frames_;
    std::unique_ptr<port::Transfer> transfer_;
  };

  static Reply send_to(Transport& transport, const std::string& server, const Request& request) {
    port::HttpRequest sent{.method = request.method,
                           .url = server + request.target,
                           .headers = request.headers,
                           .body = request.body,
                           .timeout = kPatience};
    sent.headers.push_back({"Accept", "application/json"});
    if (!request.content_type.empty()) {
      sent.headers.push_back({"Content-Type", request.content_type});
    }
    test::RecordingSink sink;
    const auto transfer = transport.http.start(std::move(sent), sink);
    transport.run_until([&sink] { return sink.end.has_value(); }, kPatience);
    if (!sink.error().empty()) {
      throw std::runtime_error(request.target + ": " + sink.error());
    }
    return {.status = sink.head.status,
            .headers = sink.head.headers,
            .text = sink.body,
            .body = Json::parse(sink.body, nullptr, false)};
  }

  Transport known_;
  Transport nameless_;
  std::string server_;
};

}  // namespace

std::unique_ptr<ApiUnderTest> make_real_api(const std::string& kubeconfig) {
  return std::make_unique<RealApi>(kubeconfig);
}

std::unique_ptr<ApiUnderTest> make_api() {
  const std::string kubeconfig = environment("MOONFENCE_CONTRACT_KUBECONFIG");
  return kubeconfig.empty() ? make_sim_api() : make_real_api(kubeconfig);
}

}  // namespace moonfence::contract
