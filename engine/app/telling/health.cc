#include "app/telling/health.h"

namespace moonfence::app {

void Health::set_ready(const std::string& check, const std::string& why_not) {
  const std::scoped_lock lock(mutex_);
  checks_[check] = why_not;
}

void Health::note(const std::string& check, const std::string& text) {
  const std::scoped_lock lock(mutex_);
  notes_[check] = text;
}

void Health::alive(Moment now) {
  const std::scoped_lock lock(mutex_);
  last_turn_ = now;
}

Health::Answer Health::ready(bool verbose) const {
  const std::scoped_lock lock(mutex_);
  Answer answer{.ok = !checks_.empty(), .text = {}};
  std::string lines;
  for (const auto& [check, why_not] : checks_) {
    lines += why_not.empty() ? "[+]" : "[-]";
    lines += check;
    lines += why_not.empty() ? " ok" : " failed: ";
    lines += why_not;
    const auto note = notes_.find(check);
    if (why_not.empty() && note != notes_.end() && !note->second.empty()) {
      lines += ", but " + note->second;
    }
    lines += '\n';
    answer.ok = answer.ok && why_not.empty();
  }
  lines += answer.ok ? "readyz check passed\n" : "readyz check failed\n";
  answer.text = answer.ok && !verbose ? "ok" : lines;
  return answer;
}

std::map<std::string, std::string> Health::failing() const {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, std::string> checks = checks_;
  std::erase_if(checks, [](const auto& check) { return check.second.empty(); });
  return checks;
}

Health::Answer Health::live(Moment now, bool verbose) const {
  const std::scoped_lock lock(mutex_);
  const bool ok = now - last_turn_ < kStuckAfter;
  if (ok && !verbose) {
    return {.ok = true, .text = "ok"};
  }
  const std::string age =
      format_duration(std::chrono::duration_cast<std::chrono::seconds>(now - last_turn_));
  return ok ? Answer{.ok = true, .text = "[+]loop ok\nhealthz check passed\n"}
            : Answer{.ok = false,
                     .text = "[-]loop failed: no turn for " + age + "\nhealthz check failed\n"};
}

}  // namespace moonfence::app
