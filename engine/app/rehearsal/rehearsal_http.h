#pragma once

// RehearsalHttp stands between an engine and the API server: reads pass, no write leaves. Each
// write is noted as it would have left, and answered as the API server does when all goes well, so
// that the engine goes on to the next step. What is supposed to be so is put into what is read:
// nodes that are down although they are up, and nodes with the patches that would have been made.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/time.h"
#include "loop/loop.h"
#include "port/http.h"

namespace moonfence::app {

// A request that would have changed something.
struct Write {
  port::Method method = port::Method::Get;
  std::string path;     // without server and query
  nlohmann::json body;  // null when it had none that is JSON

  friend bool operator==(const Write&, const Write&) = default;
};

class RehearsalHttp final : public port::Http {
 public:
  // Requests to other servers than `server` are none of our business: policies ask health sources.
  RehearsalHttp(port::Http& real, loop::Loop& loop, std::string server);

  // From now on the node reads as one whose machine died before `at`: Ready=Unknown, the taint
  // that Kubernetes sets, and a Lease that has not been renewed since.
  void suppose_down(const NodeName& name, WallTime at);

  [[nodiscard]] const std::vector<Write>& writes() const { return writes_; }
  // The path of the first read that the API server refused (401 or 403); empty: none was.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  // Exchanges whose answer has not arrived yet; an open watch is none.
  [[nodiscard]] std::size_t outstanding() const { return outstanding_; }

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override;
  void use_tls(port::TlsSettings settings) override { real_.use_tls(std::move(settings)); }
  void drop_connections() override { real_.drop_connections(); }

 private:
  using Rewrite = std::function<std::string(std::string)>;
  class Passage;
  class Answer;
  struct Reply {
    int status = 200;
    nlohmann::json body;
  };
  [[nodiscard]] Rewrite rewrite_for(const std::string& path);
  [[nodiscard]] std::string seen_node(const std::string& path, const std::string& text);
  [[nodiscard]] Reply reply_to(const Write& write);
  [[nodiscard]] Reply patch_node(const Write& write);

  port::Http& real_;
  loop::Loop& loop_;
  const std::string server_;
  std::map<std::string, std::pair<NodeName, WallTime>> down_;  // by path, of node and of Lease
  std::map<std::string, nlohmann::json> nodes_;                // by path, as they were last read
  std::map<std::string, nlohmann::json> patches_;              // by path, without their tests
  std::vector<Write> writes_;
  std::string refusal_;
  std::size_t outstanding_ = 0;
};

// The documents with what is supposed in them.
[[nodiscard]] nlohmann::json with_node_down(nlohmann::json node, WallTime at);
[[nodiscard]] nlohmann::json with_lease_old(nlohmann::json lease, WallTime at);

}  // namespace moonfence::app
