#pragma once

// TlsRelay is one connection of a TlsFront: first the handshake, then bytes between the client and
// the server behind. It never blocks, and says what it waits for.

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>

#include "os/net/tls_front.h"
#include "os/system/descriptor.h"

struct ssl_st;

namespace moonfence::os {

class TlsRelay final {
 public:
  using Time = std::chrono::steady_clock::time_point;

  TlsRelay(Descriptor client, const TlsIdentity& identity, Time now);
  ~TlsRelay();
  TlsRelay(const TlsRelay&) = delete;
  TlsRelay& operator=(const TlsRelay&) = delete;

  // Does all that can be done without waiting. False: it is over.
  [[nodiscard]] bool advance(Time now, const TlsFront::HandOver& hand_over);

  // There is more to do at once.
  [[nodiscard]] bool again() const { return again_; }
  // What poll() shall wait for, on each side; 0: nothing, and that side must not be polled.
  [[nodiscard]] short client_events() const { return client_events_; }
  [[nodiscard]] short inner_events() const { return inner_events_; }
  [[nodiscard]] int client() const { return client_.get(); }
  [[nodiscard]] int inner() const { return inner_.get(); }

  // When it is to be ended unless it advances. What a client sends keeps it only once for each
  // answer: with a byte now and then nobody holds it.
  [[nodiscard]] Time deadline(const TlsFront::Limits& limits, bool full) const;

 private:
  enum class Phase { Handshake, Relaying, Lingering, Over };
  struct Buffer {
    std::array<char, 16384> bytes{};
    std::size_t begin = 0;
    std::size_t end = 0;

    [[nodiscard]] bool empty() const { return begin == end; }
    [[nodiscard]] std::size_t size() const { return end - begin; }
    void fill(std::size_t count) {
      begin = 0;
      end = count;
    }
  };

  // Each: whether something moved.
  bool shake_hands(const TlsFront::HandOver& hand_over);
  bool read_client();
  bool write_inner();
  bool read_inner();
  bool write_client();
  bool linger();

  bool relay();
  void wait_for_client(int result);
  void refuse_plain_http();
  void begin_lingering();

  Descriptor client_;
  Descriptor inner_;
  ssl_st* const ssl_;
  Phase phase_ = Phase::Handshake;
  const Time began_;
  Time now_;           // of the turn
  Time moved_;         // for the client's sake: an answer's bytes, the first ones of a request
  bool owed_ = false;  // the server has got something since it last sent anything
  bool again_ = false;
  short client_events_ = 0;
  short inner_events_ = 0;
  bool client_ended_ = false;  // sends nothing more
  bool inner_shut_ = false;    // and the server knows
  bool inner_ended_ = false;   // the server has closed
  Buffer to_inner_;
  Buffer to_client_;
};

}  // namespace moonfence::os
