#pragma once

// SHA-256 over the audit lines of a run, taken in as they come.

#include <memory>
#include <string>
#include <string_view>

namespace moonfence::sim {

class AuditHash {
 public:
  AuditHash();
  ~AuditHash();
  AuditHash(const AuditHash&) = delete;
  AuditHash& operator=(const AuditHash&) = delete;

  void add(std::string_view replica, std::string_view line);
  // Of what was added so far; more may follow.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moonfence::sim
