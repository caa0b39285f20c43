#pragma once

// Faults of the wire and of the servers, drawn once per seed, so that some runs are calm and some
// are cruel. Probabilities are per request, per piece or per change, as their names say. All
// default to none: a scenario that names no fault has none.

#include "base/time.h"

namespace moonfence::sim {

struct Range {
  Duration from{};
  Duration to{};  // uniform in between
};

struct Faults {
  // The wire between a replica and its API server.
  Range latency{std::chrono::microseconds(300), std::chrono::milliseconds(2)};  // each way
  std::size_t piece_limit = 16U << 10U;  // answers arrive in pieces of 1..piece_limit bytes
  Range piece_gap{};                     // between two pieces
  double refused = 0;                    // a request finds its connection refused; not sent
  double lost_request = 0;  // sent, never arrives; ends by timeout or as broken connection
  double lost_reply = 0;    // arrives and is done; the reply is lost
  double truncated = 0;     // the answer ends in the middle of its body, or of a watch line
  double slow = 0;          // latency of this request times 100
  double black_hole = 0;    // a connection falls silent without an error
  double lost_packet = 0;   // each way, between a replica and a node's kernel

  // The servers.
  double too_many = 0;               // 429 with Retry-After
  double internal = 0;               // 500, nothing done
  double internal_after_commit = 0;  // 500 or 504 although done
  Range cache_lag{};                 // staleness of each server's watch cache
  double watch_duplicate = 0;        // an event is sent twice
  double watch_cut = 0;              // a watch ends after an event

  // Clocks.
  Range skew{};  // each replica's wall clock is off by that much, either way
  Range informer_lag{std::chrono::milliseconds(1), std::chrono::milliseconds(20)};
};

}  // namespace moonfence::sim
