#pragma once

// Runs an exec plugin when a credential is needed and keeps what it gave until it expires, or
// without an expiry until the server refuses it. However many requests wait, one run serves them
// all. Runs start at least kMinimumInterval apart, and after failures the pause doubles up to
// kLongestPause: a broken plugin or a server that refuses everybody costs a process every few
// seconds, not more. Shortly before the expiry a run starts while the old credential still serves.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "kube/auth/connection.h"
#include "kube/auth/exec_credential.h"
#include "kube/auth/reloads.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/processes.h"
#include "port/wall_clock.h"

namespace moonfence::kube {

class ExecLogin final {
 public:
  static constexpr Duration kMinimumInterval = std::chrono::seconds(5);
  static constexpr Duration kLongestPause = std::chrono::seconds(60);
  static constexpr Duration kTimeout = std::chrono::seconds(30);

  // What the plugin needs from its surroundings.
  class Host {
   public:
    virtual ~Host() = default;
    // The value of KUBERNETES_EXEC_INFO for a run that starts now.
    [[nodiscard]] virtual std::string exec_environment() = 0;
    // Comes before any waiting request goes on.
    virtual void on_credential(const ExecCredential& credential) = 0;
  };
  using Answer = std::function<void(const Result<ExecCredential>&)>;

  ExecLogin(loop::Loop& loop, port::Processes& processes, port::WallClock& wall_clock,
            port::Log& log, ExecPlugin plugin, Host& host);
  ExecLogin(const ExecLogin&) = delete;
  ExecLogin& operator=(const ExecLogin&) = delete;

  // Answers in this turn when a credential or a refusal is at hand, else when the run has ended.
  // While the plugin pauses after failures, the error's retry_after says for how long.
  void get(Answer answer);
  // See Credentials::refused().
  bool refused(Moment asked);
  [[nodiscard]] const Reloads& reloads() const { return reloads_; }

 private:
  [[nodiscard]] bool usable() const;
  [[nodiscard]] bool expires_soon() const;
  [[nodiscard]] bool may_run() const { return !running_ && loop_.now() >= not_before_; }
  void run();
  void on_ended(const Result<port::ProcessOutput>& ended);
  [[nodiscard]] Result<ExecCredential> judge(const Result<port::ProcessOutput>& ended) const;
  [[nodiscard]] Error start_error(const Error& error) const;
  void take(const ExecCredential& credential);
  void fail(const Error& error);
  [[nodiscard]] Result<ExecCredential> pausing() const;

  loop::Loop& loop_;
  port::Processes& processes_;
  port::WallClock& wall_clock_;
  port::Log& log_;
  const ExecPlugin plugin_;
  Host& host_;

  std::optional<ExecCredential> credential_;
  Moment since_;                        // when credential_ came
  Duration leeway_ = Duration::zero();  // how long before its expiry a run starts
  Moment not_before_;                   // of the next run
  int failures_ = 0;                    // in a row
  std::optional<Error> error_;          // the latest run's
  bool running_ = false;
  std::vector<Answer> waiting_;
  Reloads reloads_;
  std::unique_ptr<port::Process> process_;
};

}  // namespace moonfence::kube
