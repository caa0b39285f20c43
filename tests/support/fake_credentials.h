#pragma once

// Credentials under a test's control: a token that can rotate, an answer that can be late or fail.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kube/auth/credentials.h"

namespace moonfence::test {

class FakeCredentials final : public kube::Credentials {
 public:
  void headers(Ready ready) override {
    ++asked;
    if (late) {
      waiting = std::move(ready);
    } else {
      answer(ready);
    }
  }
  bool refused(Moment) override {
    ++refusals;
    if (!next_token) {
      return false;
    }
    token = *std::exchange(next_token, std::nullopt);
    return true;
  }

  void answer(const Ready& ready) const {
    if (fault) {
      ready(failure(*fault));
    } else {
      ready(std::vector<port::Header>{{"Authorization", "Bearer " + token}});
    }
  }

  std::string token = "first";
  std::optional<std::string> next_token;  // what a 401 brings out
  std::optional<Error> fault;
  bool late = false;  // keeps the question in `waiting`
  Ready waiting;
  int asked = 0;
  int refusals = 0;
};

}  // namespace moonfence::test
