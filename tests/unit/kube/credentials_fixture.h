#pragma once

// Live credentials over virtual time, with files, processes and a network in memory.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kube/auth/live_credentials.h"
#include "support/fake_files.h"
#include "support/fake_poller.h"
#include "support/fake_processes.h"
#include "unit/kube/kubeconfig_texts.h"

namespace moonfence::kube {

using namespace std::chrono_literals;

// What an exec plugin prints.
inline const std::string kV1 = "client.authentication.k8s.io/v1";

inline std::string plugin_output(const nlohmann::json& status, const std::string& version = kV1) {
  return nlohmann::json{{"apiVersion", version}, {"kind", "ExecCredential"}, {"status", status}}
      .dump();
}

// Sees what the TLS files do to the network.
struct FakeNetwork final : port::Http {
  std::unique_ptr<port::Transfer> start(port::HttpRequest, port::HttpSink&) override {
    return nullptr;
  }
  void use_tls(port::TlsSettings given) override {
    tls = std::move(given);
    ++tls_calls;
  }
  void drop_connections() override { ++drops; }

  port::TlsSettings tls;
  int tls_calls = 0;
  int drops = 0;
};

// Runs along with the loop.
struct FakeWallClock final : port::WallClock {
  explicit FakeWallClock(test::FakePoller& given) : poller(given) {}
  WallTime now() override {
    return *parse_rfc3339("2026-01-01T00:00:00Z") + (poller.now() - Moment{});
  }
  test::FakePoller& poller;
};

struct CountingLog final : port::Log {
  void write(Level level, std::string_view, const std::vector<port::LogField>&) override {
    warnings += level == Level::Warning ? 1 : 0;
  }
  int warnings = 0;
};

struct CredentialsTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  FakeNetwork network;
  test::FakeFiles files;
  test::FakeProcesses processes{poller};
  FakeWallClock wall_clock{poller};
  CountingLog log;
  Connection connection;
  std::unique_ptr<LiveCredentials> credentials;
  std::vector<std::string> answers;

  CredentialsTest() { connection.server = "https://api"; }

  void start() {
    credentials = std::make_unique<LiveCredentials>(
        LiveCredentials::Surroundings{loop, network, files, processes, wall_clock, log},
        connection);
  }
  // Asks for headers; the answer goes to `answers` as "Name=value ..." or "error: ...".
  void ask() {
    credentials->headers([this](const Result<std::vector<port::Header>>& headers) {
      std::string line;
      if (!headers) {
        line = "error: " + headers.error().message();
        last_error = headers.error();
      } else {
        for (const port::Header& header : *headers) {
          line += (line.empty() ? "" : " ") + header.name + "=" + header.value;
        }
      }
      answers.push_back(line);
    });
  }
  std::string asked() {
    answers.clear();
    ask();
    test::run_until(
        loop, [this] { return !answers.empty(); }, 1s);
    return answers.empty() ? "nothing" : answers.front();
  }
  std::optional<Error> last_error;

  void use_token_file(const std::string& first) {
    connection.identity.token = first;
    connection.identity.token_file = "/t";
    files.write("/t", first + "\n");
  }
  void use_plugin() {
    connection.identity.exec = ExecPlugin{.api_version = kV1,
                                          .command = "plugin",
                                          .arguments = {"get"},
                                          .environment = {{"A", "b"}},
                                          .install_hint = "Install it.",
                                          .provide_cluster_info = false};
  }
  void use_certificate_files() {
    connection.identity.certificate_file = "/c";
    connection.identity.key_file = "/k";
    connection.identity.certificate_pem = texts::certificate("c1");
    connection.identity.key_pem = texts::key("k1");
    files.write("/c", texts::certificate("c1"));
    files.write("/k", texts::key("k1"));
  }
};

}  // namespace moonfence::kube
