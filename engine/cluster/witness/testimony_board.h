#pragma once

// TestimonyBoard answers what other replicas ask about machines. Detection tells it each change, on
// the loop's thread; the HTTP server answers from it on its own. What it knows is worth nothing
// when the loop stands still, so it says nothing then.

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/ed25519.h"
#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "cluster/detection/kernel_watch.h"

namespace moonfence::cluster {

class TestimonyBoard {
 public:
  // After so long without tell_alive() it does not know any more.
  static constexpr Duration kAlive = std::chrono::seconds(2);

  explicit TestimonyBoard(const SigningKey::Secret& secret) : key_(secret) {}
  TestimonyBoard(const TestimonyBoard&) = delete;
  TestimonyBoard& operator=(const TestimonyBoard&) = delete;

  [[nodiscard]] const std::string& public_key() const { return key_.public_key(); }

  // null: the node is forgotten.
  void tell(const NodeName& node, const KernelWatch* watch);
  // Once a second. `is_well`: nothing speaks for a fault of our own.
  void tell_alive(Moment now, bool is_well);

  // From any thread. `nodes`: names with commas between them, or none. Invalid for a question that
  // is none, Retryable when nothing is known at this moment.
  [[nodiscard]] Result<std::string> answer(std::string_view nonce, std::string_view nodes,
                                           Moment now) const;

 private:
  const SigningKey key_;
  mutable std::mutex mutex_;
  std::map<NodeName, KernelWatch> watches_;
  std::optional<Moment> alive_at_;
  bool is_well_ = false;
};

}  // namespace moonfence::cluster
