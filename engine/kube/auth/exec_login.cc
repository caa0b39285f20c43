#include "kube/auth/exec_login.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace moonfence::kube {
namespace {

constexpr std::size_t kShownBytes = 512;

}  // namespace

ExecLogin::ExecLogin(loop::Loop& loop, port::Processes& processes, port::WallClock& wall_clock,
                     port::Log& log, ExecPlugin plugin, Host& host)
    : loop_(loop),
      processes_(processes),
      wall_clock_(wall_clock),
      log_(log),
      plugin_(std::move(plugin)),
      host_(host),
      not_before_(loop.now()) {}

void ExecLogin::get(Answer answer) {
  if (usable()) {
    if (expires_soon() && may_run()) {
      run();
    }
    answer(Result<ExecCredential>(*credential_));
    return;
  }
  if (!running_ && !may_run()) {
    answer(pausing());
    return;
  }
  waiting_.push_back(std::move(answer));
  if (!running_) {
    run();
  }
}

bool ExecLogin::refused(Moment asked) {
  if (credential_ && since_ > asked) {
    return true;
  }
  if (!running_ && !may_run()) {
    // It is only just there, and another run would give the same.
    return false;
  }
  credential_.reset();
  return true;
}

bool ExecLogin::usable() const {
  return credential_ && (!credential_->expires || wall_clock_.now() < *credential_->expires);
}

bool ExecLogin::expires_soon() const {
  return credential_->expires && wall_clock_.now() + leeway_ >= *credential_->expires;
}

void ExecLogin::run() {
  port::Command command{.program = plugin_.command,
                        .arguments = plugin_.arguments,
                        .environment = plugin_.environment,
                        .timeout = kTimeout};
  command.environment.emplace_back("KUBERNETES_EXEC_INFO", host_.exec_environment());
  running_ = true;
  not_before_ = loop_.now() + kMinimumInterval;
  process_ = processes_.start(
      std::move(command), [this](const Result<port::ProcessOutput>& ended) { on_ended(ended); });
}

void ExecLogin::on_ended(const Result<port::ProcessOutput>& ended) {
  running_ = false;
  Result<ExecCredential> judged = judge(ended);
  if (judged) {
    take(*judged);
  } else {
    fail(judged.error());
    judged = pausing();
  }
  // An answer may ask again, so the list is emptied first.
  const std::vector<Answer> waiting = std::exchange(waiting_, {});
  for (const Answer& answer : waiting) {
    answer(judged);
  }
}

Result<ExecCredential> ExecLogin::judge(const Result<port::ProcessOutput>& ended) const {
  const std::string place = "exec plugin \"" + escaped(plugin_.command, 256) + "\"";
  if (!ended) {
    return failure(start_error(ended.error()).within(place));
  }
  if (ended->exit_code != 0) {
    const std::string_view said = trimmed(ended->err);
    return failure(Error::Kind::Retryable,
                   place + ": ended with code " + std::to_string(ended->exit_code) +
                       (said.empty() ? "" : ": \"" + escaped(said, kShownBytes) + "\""),
                   "run the plugin by hand as the user of this process");
  }
  auto credential = parse_exec_credential(ended->out, plugin_.api_version);
  if (!credential) {
    Error error = std::move(credential).error().within(place);
    error.kind = Error::Kind::Retryable;
    return failure(std::move(error));
  }
  if (credential->expires && *credential->expires <= wall_clock_.now()) {
    return failure(
        Error::Kind::Retryable,
        place + ": gave a credential that expired at " + format_rfc3339(*credential->expires),
        "is this machine's clock right?");
  }
  return credential;
}

Error ExecLogin::start_error(const Error& error) const {
  Error out = error;
  if (error.kind == Error::Kind::NotFound || error.kind == Error::Kind::Forbidden) {
    out.kind = Error::Kind::Unauthorized;
    out.hint = plugin_.install_hint.empty() ? "install it, or correct the kubeconfig's command"
                                            : plugin_.install_hint;
  } else {
    out.kind = Error::Kind::Retryable;
  }
  return out;
}

void ExecLogin::take(const ExecCredential& credential) {
  const bool changed = credential_ != credential;
  credential_ = credential;
  since_ = loop_.now();
  failures_ = 0;
  error_.reset();
  if (credential.expires) {
    const Duration life = *credential.expires - wall_clock_.now();
    leeway_ = std::min<Duration>(life / 5, std::chrono::minutes(1));
  }
  reloads_.succeed(log_, "plugin", changed);
  host_.on_credential(credential);
}

void ExecLogin::fail(const Error& error) {
  error_ = error;
  Duration pause = kMinimumInterval;
  for (int i = 0; i < failures_ && pause < kLongestPause; ++i) {
    pause *= 2;
  }
  ++failures_;
  not_before_ = std::max(not_before_, loop_.now() + std::min(pause, kLongestPause));
  reloads_.fail(log_, "plugin", error.message());
}

Result<ExecCredential> ExecLogin::pausing() const {
  Error error = error_.value_or(Error{
      .kind = Error::Kind::Retryable,
      .text = "exec plugin \"" + escaped(plugin_.command, 256) + "\": its credential ended at once",
      .hint = "is this machine's clock right?"});
  error.retry_after = not_before_ - loop_.now();
  return failure(std::move(error));
}

}  // namespace moonfence::kube
