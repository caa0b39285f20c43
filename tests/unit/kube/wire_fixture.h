#pragma once

// A Caller over a scripted server on virtual time.

#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "kube/wire/caller.h"
#include "support/fake_credentials.h"
#include "support/fake_http.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"

namespace moonfence::kube {

struct WireTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeCredentials credentials;
  test::FakeLog log;
  Caller caller{loop, http, credentials, log, "https://api:6443/prefix", "moonfence/0.1"};

  // Turns until `slot` is filled.
  template <class T>
  Result<T> wait_for(std::optional<Result<T>>& slot) {
    if (!test::run_until(loop, [&slot] { return slot.has_value(); })) {
      return failure(Error::Kind::Cancelled, "never called");
    }
    return *std::exchange(slot, std::nullopt);
  }

  Result<ApiReply> call(ApiRequest request) {
    std::optional<Result<ApiReply>> slot;
    const CallHandle handle = caller.call(
        std::move(request), [&slot](Result<ApiReply> reply) { slot = std::move(reply); });
    EXPECT_FALSE(slot.has_value()) << "done was called inside call()";
    return wait_for(slot);
  }

  static ApiRequest get(std::string path) {
    ApiRequest request;
    request.path = std::move(path);
    return request;
  }
  static ApiRequest write(std::string path, port::Method method = port::Method::Delete) {
    ApiRequest request = get(std::move(path));
    request.method = method;
    request.body = "{}";
    request.content_type = "application/json";
    return request;
  }
  static test::FakeAnswer status(int code, const std::string& reason,
                                 const std::string& details = "{}") {
    return {
        .status = code,
        .body =
            R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"m","reason":")" +
            reason + R"(","code":)" + std::to_string(code) + R"(,"details":)" + details + "}"};
  }
};

}  // namespace moonfence::kube
