#pragma once

// The API servers of the cluster, "api-0" and so on, over one store: each with a watch cache of its
// own age, and what the plan's faults and steps do to them.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/ground/ground.h"
#include "sim/server/api_server.h"

namespace moonfence::sim {

class Servers final {
 public:
  using Kubelet = std::function<ServerAnswer(const std::string& node, std::string_view path)>;
  Servers(const Ground& ground, const Plan& plan, const Kubelet& kubelet);
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  [[nodiscard]] ApiServer& at(std::size_t index) { return *servers_.at(index).server; }
  [[nodiscard]] std::size_t size() const { return servers_.size(); }

  // The whole store goes back; every server is away for that long, and its watches end.
  void restore(const StoreSnapshot& snapshot, Duration away);

  // RestartServer, Outage, Compact, RefuseWrites, HushWatches, Calm; false for anything else, or
  // when there is no such server.
  bool perform(const Step& step);

 private:
  struct Entry {
    std::unique_ptr<port::Random> random;
    std::unique_ptr<ApiServer> server;
    loop::Timer away;
  };
  void take_down(std::size_t index, Duration how_long);
  void restart(std::size_t index);

  const Ground& ground_;
  std::vector<Entry> servers_;
};

[[nodiscard]] std::string server_name(std::size_t index);

}  // namespace moonfence::sim
