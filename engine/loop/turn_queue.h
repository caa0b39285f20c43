#pragma once

// TurnQueue has those who want the same narrow thing take it one after the other, in the order in
// which they asked.

#include <deque>
#include <functional>
#include <memory>

#include "loop/loop.h"

namespace moonfence::loop {

class TurnQueue {
 public:
  // A place in the queue, and then the turn itself until it is destroyed.
  class Ticket {
   public:
    Ticket(TurnQueue& turns, std::function<void()> begin)
        : turns_(turns), begin_(std::move(begin)) {}
    ~Ticket() { turns_.leave(*this); }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

   private:
    friend class TurnQueue;
    TurnQueue& turns_;
    const std::function<void()> begin_;
  };

  // Both must outlive the tickets.
  explicit TurnQueue(Loop& loop) : loop_(loop) {}
  TurnQueue(const TurnQueue&) = delete;
  TurnQueue& operator=(const TurnQueue&) = delete;

  // `begin` is called in a later turn of the loop; it may give the ticket up.
  [[nodiscard]] std::unique_ptr<Ticket> queue(std::function<void()> begin);

 private:
  void leave(const Ticket& ticket);
  void call_first();

  Loop& loop_;
  std::deque<const Ticket*> queue_;  // it is the first one's turn
  Timer next_;
};

}  // namespace moonfence::loop
