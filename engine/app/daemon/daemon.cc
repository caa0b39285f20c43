#include "app/daemon/daemon.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/engine/engine.h"
#include "app/engine/preparation.h"
#include "app/serving/certificate_keeper.h"
#include "app/serving/reader_gate.h"
#include "app/serving/reader_reviews.h"
#include "app/settings/version.h"
#include "app/telling/logging.h"
#include "app/web/admin_server.h"
#include "app/web/status_site.h"
#include "os/net/curl_http.h"
#include "os/net/curl_poller.h"
#include "os/net/socket_links.h"
#include "os/system/append_file.h"
#include "os/system/clocks.h"
#include "os/system/entropy.h"
#include "os/system/mailbox.h"
#include "os/system/process.h"
#include "os/system/process_usage.h"
#include "os/system/processes.h"
#include "os/system/signals.h"
#include "os/system/system_files.h"

namespace moonfence::app {
namespace {

std::function<Result<void>(std::string_view)> append_line(const RunOptions& options,
                                                          os::AppendFile* file) {
  if (options.audit_log == "-") {
    return [](std::string_view line) -> Result<void> {
      const bool written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size() &&
                           std::fputc('\n', stdout) != EOF && std::fflush(stdout) == 0;
      return written ? Result<void>()
                     : failure(Error::Kind::Limit, "standard output cannot be written");
    };
  }
  if (file == nullptr) {
    return {};
  }
  return [file](std::string_view line) { return file->append(line); };
}

constexpr Duration kTidyUp = std::chrono::seconds(10);
// Two browsers and some more. A picture of everything may have some 5 MB, as often as it is under
// way.
constexpr unsigned kStatusConnections = 16;
constexpr unsigned kMetricsConnections = 64;

std::string version_json() {
  return nlohmann::ordered_json{{"version", version()}, {"commit", commit()}}.dump() + "\n";
}

// To another replica's question about machines.
HttpAnswer witness_answer(const std::map<std::string, std::string>& query, const Engine& engine,
                          Moment now) {
  const auto value = [&query](const char* key) {
    const auto found = query.find(key);
    return found == query.end() ? std::string_view() : std::string_view(found->second);
  };
  const auto answer = engine.testify(value("nonce"), value("nodes"), now);
  if (answer) {
    return {.status = 200, .content_type = "application/json", .body = *answer};
  }
  return {.status = answer.error().kind == Error::Kind::Invalid ? 400 : 503,
          .body = answer.error().message() + "\n"};
}

// By which clients may know us that check our own certificate.
std::vector<std::string> own_names(const std::string& space, port::Files& files) {
  const std::string service = "moonfence." + space + ".svc";
  std::vector<std::string> names = {
      "moonfence", "moonfence." + space, service, service + ".cluster.local",
      "localhost", "127.0.0.1",          "::1"};
  if (const auto ip = files.environment("POD_IP")) {
    names.push_back(*ip);
  }
  return names;
}

// What a reader needs: the path that he must be allowed to get, and the role that allows it.
struct Readers {
  const char* path;
  const char* role;
};
constexpr Readers kOfMetrics = {"/metrics", "moonfence-metrics-reader"};
constexpr Readers kOfStatus = {"/status", "moonfence-status-reader"};  // of all of its pages

class Daemon {
 public:
  Daemon(const RunOptions& options, Prepared prepared, port::Files& files,
         port::WallClock& wall_clock, port::CpuClock& cpu_clock, port::Log& log)
      : options_(options),
        audit_file_(std::move(prepared.audit_file)),
        log_(log),
        files_(files),
        wall_clock_(wall_clock),
        namespace_(prepared.assignment.engine_namespace),
        started_(wall_clock.now()),
        loop_(poller_),
        http_(poller_),
        links_(loop_, poller_),
        processes_(loop_, poller_),
        engine_(std::move(prepared.assignment),
                {.loop = loop_,
                 .http = http_,
                 .files = files,
                 .processes = processes_,
                 .wall_clock = wall_clock,
                 .cpu_clock = cpu_clock,
                 .random = random_,
                 .log = log,
                 .append_audit = append_line(options, audit_file_.get()),
                 .status_board = options.status_bind_address == "0" ? nullptr : &status_board_,
                 .links = &links_}),
        status_site_(
            status_board_, [&wall_clock] { return wall_clock.now(); },
            is_loopback(options.status_bind_address)),
        reviews_(loop_, engine_.guests_caller(), log),
        mailbox_(poller_),
        gate_(mailbox_, reviews_,
              [this](int status) { engine_.metrics().reader_answered(status); }) {}
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  // The servers' threads wait for nothing any more.
  ~Daemon() { mailbox_.close(); }

  // Signals before the servers' threads, which must inherit the blocked mask; servers before the
  // first list, so that a slow start can be watched from outside.
  Result<void> start() {
    engine_.health().alive(poller_.now());
    auto signals = os::Signals::open(
        poller_, {.drain = [this] { engine_.drain([this] { leave(ExitCode::Ok); }); },
                  .now = [this] { leave(ExitCode::Failed); }});
    if (!signals) {
      return failure(signals.error());
    }
    signals_ = std::move(*signals);
    if (options_.secure_serving) {
      if (auto ready = open_certificate(); !ready) {
        return ready;
      }
    }
    if (options_.metrics_bind_address != "0") {
      auto server = AdminServer::start("--metrics-bind-address", options_.metrics_bind_address,
                                       {{"/metrics", metrics_handler()}}, kMetricsConnections,
                                       security_for(kOfMetrics));
      if (!server) {
        return failure(server.error());
      }
      metrics_server_ = std::move(*server);
    }
    if (options_.health_probe_bind_address != "0") {
      auto server = AdminServer::start("--health-probe-bind-address",
                                       options_.health_probe_bind_address, health_handlers());
      if (!server) {
        return failure(server.error());
      }
      health_server_ = std::move(*server);
    }
    if (options_.status_bind_address != "0") {
      auto server = AdminServer::start(
          "--status-bind-address", options_.status_bind_address,
          {{"", [this](const HttpRequest& request) { return status_site_.answer(request); }}},
          kStatusConnections, security_for(kOfStatus));
      if (!server) {
        return failure(server.error());
      }
      status_server_ = std::move(*server);
    }
    return {};
  }

  ExitCode run() {
    engine_.start();
    tidy_up();
    loop_.run();
    log_.info("stopped");
    return exit_code_;
  }

 private:
  Result<void> open_certificate() {
    auto keeper = CertificateKeeper::open(
        options_.serving_certificate, own_names(namespace_, files_),
        {.loop = loop_,
         .files = files_,
         .clock = wall_clock_,
         .log = log_,
         .changed = [this](const std::shared_ptr<const os::TlsIdentity>& identity) {
           show(identity);
         }});
    if (!keeper) {
      return failure(keeper.error());
    }
    certificate_ = std::move(*keeper);
    engine_.metrics().set_serving_certificate(certificate_->identity()->expires());
    return {};
  }

  void show(const std::shared_ptr<const os::TlsIdentity>& identity) {
    engine_.metrics().set_serving_certificate(identity->expires());
    for (const auto& server : {std::cref(metrics_server_), std::cref(status_server_)}) {
      if (server.get() != nullptr) {
        server.get()->use(identity);
      }
    }
  }

  AdminServer::Security security_for(Readers readers) {
    if (certificate_ == nullptr) {
      return {};
    }
    return {.identity = certificate_->identity(),
            .gate = [this, readers](const HttpRequest& request) {
              return gate_.pass(request, readers.path, readers.role);
            }};
  }

  // Lists come at the start and after trouble: what they leave is of no use for a long time.
  void tidy_up() {
    tidy_up_ = loop_.after(kTidyUp, [this] {
      os::return_free_memory();
      tidy_up();
    });
  }

  void leave(ExitCode code) {
    exit_code_ = code;
    loop_.stop();
  }

  AdminServer::Handler metrics_handler() {
    return [this](const HttpRequest& /*request*/) {
      engine_.metrics().set_process(os::process_usage(), started_);
      return HttpAnswer{.status = 200,
                        .content_type = "text/plain; version=0.0.4; charset=utf-8",
                        .body = engine_.metrics().exposition()};
    };
  }

  AdminServer::Handlers health_handlers() {
    const auto answer = [](const Health::Answer& health) {
      return HttpAnswer{.status = health.ok ? 200 : 500,
                        .content_type = "text/plain; charset=utf-8",
                        .body = health.text};
    };
    const AdminServer::Handler live = [this, answer](const HttpRequest& request) {
      return answer(engine_.health().live(poller_.now(), request.query.contains("verbose")));
    };
    return {{"/healthz", live},
            {"/livez", live},
            {"/readyz",
             [this, answer](const HttpRequest& request) {
               return answer(engine_.health().ready(request.query.contains("verbose")));
             }},
            {"/witness",
             [this](const HttpRequest& request) {
               return witness_answer(request.query, engine_, poller_.now());
             }},
            {"/version", [](const HttpRequest& /*request*/) {
               return HttpAnswer{
                   .status = 200, .content_type = "application/json", .body = version_json()};
             }}};
  }

  // Built from top to bottom, destroyed in reverse: whatever is used stands above its users.
  const RunOptions& options_;
  std::unique_ptr<os::AppendFile> audit_file_;
  port::Log& log_;
  port::Files& files_;
  port::WallClock& wall_clock_;
  const std::string namespace_;
  const WallTime started_;
  os::SystemRandom random_;
  os::CurlPoller poller_;
  loop::Loop loop_;
  os::CurlHttp http_;
  os::SocketLinks links_;
  os::ChildProcesses processes_;
  StatusBoard status_board_;
  Engine engine_;
  StatusSite status_site_;
  ReaderReviews reviews_;
  os::Mailbox mailbox_;
  ReaderGate gate_;
  std::unique_ptr<CertificateKeeper> certificate_;  // null: no TLS
  ExitCode exit_code_ = ExitCode::Ok;
  loop::Timer tidy_up_;
  std::unique_ptr<os::Signals> signals_;
  std::unique_ptr<AdminServer> metrics_server_;
  std::unique_ptr<AdminServer> health_server_;
  std::unique_ptr<AdminServer> status_server_;
};

}  // namespace

ExitCode run(const RunOptions& options) {
  os::SystemWallClock wall_clock;
  os::ThreadCpuClock cpu_clock;
  os::SystemFiles files;
  Logging log(wall_clock, options.log_level, options.log_format);
  auto prepared = prepare(options, files, cpu_clock);
  if (!prepared) {
    std::fprintf(stderr, "moonfence run: %s\n", prepared.error().error.message().c_str());
    return prepared.error().code;
  }
  if (auto secured = os::secure_process(); !secured) {
    log.warning("process_unsecured", {{"error", secured.error().message()}});
  }
  if (auto allowed = os::allow_all_descriptors(); !allowed) {
    log.warning("descriptors_limited", {{"error", allowed.error().message()}});
  }
  Daemon daemon(options, std::move(*prepared), files, wall_clock, cpu_clock, log);
  if (auto started = daemon.start(); !started) {
    std::fprintf(stderr, "moonfence run: %s\n", started.error().message().c_str());
    return ExitCode::Config;
  }
  return daemon.run();
}

}  // namespace moonfence::app
