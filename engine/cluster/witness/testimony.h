#pragma once

// Testimony is what one replica tells another of machines that the other one does not hear. It is
// asked for over HTTP, between the pods:
//
//   GET /witness?nonce=0123456789abcdef0123456789abcdef&nodes=n1,n2
//   {"statement": "{\"version\":1,\"nonce\":\"0123…\",\"well\":true,\"machines\":{\"n1\":…}}",
//    "signature": "…"}
//
// The statement is signed with the key that the replica has told in ConfigMap moonfence-status,
// which nobody but moonfence may write, and repeats the nonce of the question: an old one, or one
// of somebody else, is none. Whoever asks need not show who he is; what he hears is no secret.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ed25519.h"
#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "cluster/detection/kernel.h"

namespace moonfence::cluster {

struct Testimony {
  struct Machine {
    Kernel kernel = Kernel::NotObservable;
    // For how long at most nothing was heard of it; nullopt: it was never heard.
    std::optional<Duration> quiet;
    std::uint32_t unanswered = 0;  // questions in a row
  };

  // Of the question; 32 hexadecimal digits.
  std::string nonce;
  // Nothing speaks for a fault of the witness itself. Otherwise that it does not hear a machine
  // says nothing.
  bool is_well = false;
  // Those of the nodes that were asked about that it knows.
  std::map<NodeName, Machine> machines;
};

// Longer lists of nodes are not asked about at once, and not answered.
constexpr std::size_t kLongestNodes = 4096;

// The path and the query of the question.
[[nodiscard]] std::string question_path(std::string_view nonce, const std::vector<NodeName>& nodes);
[[nodiscard]] bool is_nonce(std::string_view text);

[[nodiscard]] std::string to_answer(const Testimony& testimony, const SigningKey& key);
// Malformed for what is none, Unauthorized for one that was not signed with that key, Invalid for
// another version's.
[[nodiscard]] Result<Testimony> testimony_of(std::string_view answer, std::string_view public_key);

}  // namespace moonfence::cluster
