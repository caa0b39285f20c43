#include "policy/kit/shipped.h"

namespace moonfence::policy {
namespace {

constexpr std::string_view kPolicy = "policy.lua";

}  // namespace

std::vector<std::string_view> shipped_names() {
  std::vector<std::string_view> names;
  for (const ShippedFile& file : shipped_files()) {
    const auto slash = file.path.find('/');
    if (file.path.substr(slash + 1) == kPolicy) {
      names.push_back(file.path.substr(0, slash));
    }
  }
  return names;
}

std::vector<std::pair<std::string, std::string>> shipped_as(std::string_view policy,
                                                            const std::string& name) {
  std::vector<std::pair<std::string, std::string>> files;
  const std::string folder = std::string(policy) + "/";
  for (const ShippedFile& file : shipped_files()) {
    if (!file.path.starts_with(folder)) {
      continue;
    }
    std::string text(file.text);
    const std::string path(file.path.substr(folder.size()));
    const std::string declared = "\n  name = \"" + std::string(policy) + "\",\n";
    if (const auto at = text.find(declared); path == kPolicy && at != std::string::npos) {
      text.replace(at, declared.size(), "\n  name = \"" + name + "\",\n");
    }
    files.emplace_back(path, std::move(text));
  }
  return files;
}

}  // namespace moonfence::policy
