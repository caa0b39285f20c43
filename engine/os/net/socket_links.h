#pragma once

// SocketLinks is port::Links over real sockets. No proxy, no name resolution, no bytes: what a peer
// sends is thrown away. The kernel keeps an open one alive and ends it when nobody answers.

#include <memory>

#include "loop/loop.h"
#include "os/system/descriptors.h"
#include "port/links.h"

namespace moonfence::os {

class SocketLinks final : public port::Links {
 public:
  // Both must outlive every link.
  SocketLinks(loop::Loop& loop, Descriptors& descriptors)
      : loop_(loop), descriptors_(descriptors) {}

  [[nodiscard]] std::unique_ptr<port::Link> open(const port::Peer& peer, Duration limit,
                                                 port::LinkSink& sink) override;

 private:
  class Socket;
  loop::Loop& loop_;
  Descriptors& descriptors_;
};

}  // namespace moonfence::os
