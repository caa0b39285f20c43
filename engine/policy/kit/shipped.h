#pragma once

// The files of the shipped policies, for `moonfence policy new --from`: each policy with its tests
// and their fixtures, compiled in from policies/.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moonfence::policy {

struct ShippedFile {
  std::string_view path;  // "ceph/testdata/orders.json"
  std::string_view text;
};

// In the order of their paths.
[[nodiscard]] std::span<const ShippedFile> shipped_files();

// The names of the policies, sorted.
[[nodiscard]] std::vector<std::string_view> shipped_names();

// The files of one policy under their paths in its folder, with another name in policy.lua. Empty:
// there is none of that name.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> shipped_as(std::string_view policy,
                                                                          const std::string& name);

}  // namespace moonfence::policy
