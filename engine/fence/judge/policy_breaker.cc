#include "fence/judge/policy_breaker.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

bool PolicyBreaker::may_run(std::string_view key) const {
  const auto found = records_.find(key);
  return found == records_.end() || found->second.reason.empty();
}

bool PolicyBreaker::has_turn(std::string_view key, const Uid& pod) const {
  const auto found = records_.find(key);
  return found == records_.end() || !found->second.served.contains(pod);
}

void PolicyBreaker::asked(std::string_view key, const Uid& pod) {
  auto found = records_.find(key);
  if (found == records_.end()) {
    found = records_.emplace(std::string(key), Record{}).first;
  }
  found->second.asked.insert(pod);
}

std::optional<std::string> PolicyBreaker::note(std::string_view key,
                                               const policy::Evaluation& evaluation) {
  return note(key, evaluation.verdict ? nullptr : &evaluation.verdict.error(), evaluation.usage);
}

std::optional<std::string> PolicyBreaker::note(std::string_view key, const Error* fault,
                                               const policy::Usage& usage) {
  auto found = records_.find(key);
  if (found == records_.end()) {
    found = records_.emplace(std::string(key), Record{}).first;
  }
  Record& record = found->second;
  if (!record.reason.empty()) {
    return std::nullopt;
  }
  record.cpu += usage.cpu;
  record.errors = fault == nullptr ? 0 : record.errors + 1;
  record.limits += fault != nullptr && fault->kind == Error::Kind::Limit ? 1 : 0;
  if (fault != nullptr && record.limits >= record.patience) {
    record.reason = "broke a limit: " + fault->text;
  } else if (record.errors >= limits_.errors_in_a_row * record.patience) {
    record.reason =
        "failed " + std::to_string(record.errors) + " times in a row, last: " + fault->text;
  } else if (record.cpu > limits_.cpu) {
    record.reason =
        "has used " + format_duration(limits_.cpu) + " of CPU time, all that one pass gives it";
  } else {
    return std::nullopt;
  }
  return record.reason;
}

void PolicyBreaker::begin_pass() {
  for (auto& [key, record] : records_) {
    record.cpu = {};
  }
}

void PolicyBreaker::begin_anew() {
  constexpr std::uint32_t kMostPatience = 1024;
  for (auto& [key, record] : records_) {
    const bool by_errors = record.limits >= record.patience ||
                           record.errors >= limits_.errors_in_a_row * record.patience;
    std::set<Uid> served;
    if (record.cpu > limits_.cpu) {
      served = std::move(record.served);
      served.merge(record.asked);
    }
    record = {
        .patience = by_errors ? std::min(record.patience * 2, kMostPatience) : record.patience,
        .asked = {},
        .served = std::move(served),
        .reason = {}};
  }
}

std::string PolicyBreaker::reason(std::string_view key) const {
  const auto found = records_.find(key);
  return found == records_.end() ? std::string() : found->second.reason;
}

std::vector<std::string> PolicyBreaker::failing() const {
  std::vector<std::string> keys;
  for (const auto& [key, record] : records_) {
    if (!record.reason.empty()) {
      keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace moonfence::fence
