#pragma once

// Trace is what one evaluation did, for tools that show or measure it: which lines ran, which
// inputs were read with which values, where the returned verdict was made. The engine evaluates
// without one.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

struct lua_State;

namespace moonfence::policy {

struct View;

// A call of a verdict's constructor in a policy's text.
struct VerdictSite {
  int line = 0;
  std::string name;  // "skip"

  friend auto operator<=>(const VerdictSite&, const VerdictSite&) = default;
};

struct FieldRead {
  std::string path;   // pod.volumes[1].driver
  std::string value;  // as JSON, cut at 256 bytes; nil when absent
};

struct Trace {
  std::set<int> lines;
  std::vector<FieldRead> reads;  // each path once, in order of first reading, at most 256
  std::optional<VerdictSite> returned;

  // Bookkeeping: what stands at an address of the Lua state. An address that is used again is
  // noted again.
  std::map<const void*, std::string> paths;  // of views
  std::map<const void*, VerdictSite> verdicts;
};

// Hooks. Each does nothing when the session has no trace.

// `from` gave the value on top for the key "owner", or the position in a list.
void trace_read(lua_State* lua, const View& from, std::string_view key);
void trace_read(lua_State* lua, const View& from, long long position);
// The verdict on top was made by the running host function, fence.NAME.
void trace_made(lua_State* lua, std::string_view name);
void trace_returned(lua_State* lua, const void* verdict);

}  // namespace moonfence::policy
