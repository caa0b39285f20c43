#pragma once

// A bearer token in a file that somebody else renews: the kubelet replaces a projected token at 80
// % of its life. Read again every 60 s; the last good token stays in force when the file is gone,
// empty or unreadable.

#include <string>

#include "base/time.h"
#include "kube/auth/reloads.h"
#include "loop/loop.h"
#include "port/files.h"
#include "port/log.h"

namespace moonfence::kube {

class TokenFile final {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(60);

  // `first`: the token in force until the file says otherwise.
  TokenFile(loop::Loop& loop, port::Files& files, port::Log& log, std::string path,
            std::string first);
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  [[nodiscard]] const std::string& token() const { return token_; }
  // A request whose headers were handed out at `asked` was answered with 401. Reads the file again
  // when the token is that old; true when a newer token is in force.
  bool refused(Moment asked);
  void reload();
  [[nodiscard]] const Reloads& reloads() const { return reloads_; }

 private:
  void tick();

  loop::Loop& loop_;
  port::Files& files_;
  port::Log& log_;
  const std::string path_;
  std::string token_;
  Moment since_;
  Reloads reloads_;
  loop::Timer timer_;
};

}  // namespace moonfence::kube
