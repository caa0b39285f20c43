#pragma once

// Turns has those who want the same narrow thing take it one after the other, in the order in which
// they asked.

#include <deque>
#include <functional>
#include <memory>

#include "loop/loop.h"

namespace moonfence::fence {

class Turns {
 public:
  // A place in the queue, and then the turn itself until it is destroyed.
  class Ticket {
   public:
    Ticket(Turns& turns, std::function<void()> begin) : turns_(turns), begin_(std::move(begin)) {}
    ~Ticket() { turns_.leave(*this); }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

   private:
    friend class Turns;
    Turns& turns_;
    const std::function<void()> begin_;
  };

  // Both must outlive the tickets.
  explicit Turns(loop::Loop& loop) : loop_(loop) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // `begin` is called in a later turn of the loop; it may give the ticket up.
  [[nodiscard]] std::unique_ptr<Ticket> queue(std::function<void()> begin);

 private:
  void leave(const Ticket& ticket);
  void call_first();

  loop::Loop& loop_;
  std::deque<const Ticket*> queue_;  // it is the first one's turn
  loop::Timer next_;
};

}  // namespace moonfence::fence
