#pragma once

// TCP connections that carry nothing: whether a machine answers at all. Its kernel answers each
// attempt to connect, whatever became of its processes, and keeps an idle connection alive by
// itself; so no process of ours wakes up for a machine that is well. Implemented by os::SocketLinks
// and, in memory, by the simulation. All calls and callbacks happen on the loop's thread.

#include <cstdint>
#include <memory>
#include <string>

#include "base/time.h"

namespace moonfence::port {

struct Peer {
  std::string address;  // IPv4 or IPv6 in digits, without brackets; never a name
  std::uint16_t port = 0;

  friend bool operator==(const Peer&, const Peer&) = default;
};

// How long an open link lives without an answer: after this long with nothing heard the kernel asks
// once a second, and gives up when it was not answered for kLinkPatience.
constexpr Duration kLinkIdle = std::chrono::seconds(1);
constexpr Duration kLinkPatience = std::chrono::seconds(2);

enum class LinkEnd {
  Refused,  // nobody listens there: an RST in answer to us
  Closed,   // FIN or RST on an open link
  Silent,   // no answer within the limit, or none for kLinkPatience while it was open; or somebody
            // on the way says that the machine cannot be reached
  NotSent,  // our own machine has not sent it: no route, no descriptor, no permission, no such
            // address. Says nothing about the peer
};

// Hears of one link: at most one on_open(), then at most one on_end().
class LinkSink {
 public:
  virtual ~LinkSink() = default;
  virtual void on_open() = 0;
  // The last call. The link may be destroyed inside it.
  virtual void on_end(LinkEnd end) = 0;
};

// A connection that is open or being opened. Destroying it closes it; its sink hears nothing more.
class Link {
 public:
  virtual ~Link() = default;
};

class Links {
 public:
  virtual ~Links() = default;
  // Connects, from a port that is used for nothing else. `limit`: how long that may take. The sink
  // must outlive the link and is never called inside open().
  [[nodiscard]] virtual std::unique_ptr<Link> open(const Peer& peer, Duration limit,
                                                   LinkSink& sink) = 0;
};

}  // namespace moonfence::port
