#pragma once

// StatusSite answers the requests of the status page's server: which page, which headers, and whom
// it does not answer. Called on the server's thread; all that it shares with the loop is the board.

#include <functional>

#include "app/status/status_board.h"
#include "app/web/admin_server.h"

namespace moonfence::app {

class StatusSite {
 public:
  // `now`: the wall clock, of any thread. The board must outlive the site.
  StatusSite(const StatusBoard& board, std::function<WallTime()> now, bool on_loopback)
      : board_(board), now_(std::move(now)), on_loopback_(on_loopback) {}

  // GET and HEAD of any path.
  [[nodiscard]] HttpAnswer answer(const HttpRequest& request) const;

 private:
  [[nodiscard]] HttpAnswer page(const HttpRequest& request) const;
  [[nodiscard]] HttpAnswer incident(const HttpRequest& request) const;

  const StatusBoard& board_;
  const std::function<WallTime()> now_;
  const bool on_loopback_;
};

// Whether only this machine can reach the address "host:port".
[[nodiscard]] bool is_loopback(std::string_view address);

}  // namespace moonfence::app
