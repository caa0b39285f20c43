#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "port/links.h"

namespace moonfence::test {

// Machines by address, and every connection that was asked for.
class FakeLinks final : public port::Links {
 public:
  enum class Machine { Open, Refuses, Silent, Unsendable };

  explicit FakeLinks(loop::Loop& loop) : loop_(loop) {}

  [[nodiscard]] std::unique_ptr<port::Link> open(const port::Peer& peer, Duration limit,
                                                 port::LinkSink& sink) override {
    asked.push_back(peer.address + ":" + std::to_string(peer.port));
    auto link = std::make_unique<FakeLink>(*this, peer.address, sink);
    const auto found = machines.find(peer.address);
    const Machine machine = found == machines.end() ? Machine::Silent : found->second;
    link->timer = loop_.after(machine == Machine::Silent ? limit : std::chrono::milliseconds(1),
                              [made = link.get(), machine] { made->answer(machine); });
    return link;
  }
  // Ends the open links to that address in the next turn.
  void end(const std::string& address, port::LinkEnd how) {
    for (FakeLink* link : open_) {
      if (link->address == address) {
        link->timer = loop_.after(Duration(1), [link, how] { link->end(how); });
      }
    }
  }
  [[nodiscard]] std::size_t open_count() const { return open_.size(); }

  std::map<std::string, Machine> machines;
  std::vector<std::string> asked;

 private:
  struct FakeLink final : port::Link {
    FakeLink(FakeLinks& links, std::string of, port::LinkSink& hears)
        : address(std::move(of)), owner(links), sink(hears) {}
    FakeLink(const FakeLink&) = delete;
    FakeLink& operator=(const FakeLink&) = delete;
    ~FakeLink() override { owner.open_.erase(this); }
    void answer(Machine machine) {
      switch (machine) {
        case Machine::Open:
          owner.open_.insert(this);
          sink.on_open();
          break;
        case Machine::Refuses:
          sink.on_end(port::LinkEnd::Refused);
          break;
        case Machine::Silent:
          sink.on_end(port::LinkEnd::Silent);
          break;
        case Machine::Unsendable:
          sink.on_end(port::LinkEnd::NotSent);
          break;
      }
    }
    void end(port::LinkEnd how) { sink.on_end(how); }

    const std::string address;
    FakeLinks& owner;
    port::LinkSink& sink;
    loop::Timer timer;
  };

  loop::Loop& loop_;
  std::set<FakeLink*> open_;
};

}  // namespace moonfence::test
