#pragma once

// What the contract suite asks an API server through: the simulated one, in virtual time, or a real
// kube-apiserver. The same assertions run over either.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/time.h"
#include "port/http.h"

namespace moonfence::contract {

using Json = nlohmann::json;

struct Request {
  port::Method method = port::Method::Get;
  std::string target;
  std::string body = {};
  std::string content_type = {};
  std::vector<port::Header> headers = {};
};

struct Reply {
  int status = 0;
  std::vector<port::Header> headers;
  std::string text;
  Json body;  // discarded when the text is no JSON

  [[nodiscard]] std::string header(std::string_view name) const {
    for (const port::Header& each : headers) {
      if (each.name == name) {
        return each.value;
      }
    }
    return {};
  }
};

// Destroying it closes the watch.
class Watch {
 public:
  virtual ~Watch() = default;
  // The next event; nothing when none came within `limit`.
  virtual std::optional<Json> next(Duration limit) = 0;
  // The server has ended the stream and everything of it was read; waits that long for it.
  virtual bool ended(Duration limit) = 0;
};

class ApiUnderTest {
 public:
  virtual ~ApiUnderTest() = default;
  virtual Reply send(const Request& request) = 0;
  // A watch that was answered with 200.
  virtual std::unique_ptr<Watch> watch(const std::string& target) = 0;
  virtual void pass(Duration time) = 0;
  // The storage forgets its history. False when there is no way to make it do so.
  virtual bool compact() = 0;
};

// Over engine/sim, or over the cluster of MOONFENCE_CONTRACT_KUBECONFIG when that is set.
[[nodiscard]] std::unique_ptr<ApiUnderTest> make_api();
[[nodiscard]] std::unique_ptr<ApiUnderTest> make_sim_api();
[[nodiscard]] std::unique_ptr<ApiUnderTest> make_real_api(const std::string& kubeconfig);

}  // namespace moonfence::contract
