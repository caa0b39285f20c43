#pragma once

// Files and environment in memory. A path holds a text or an error; reads are counted.

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "port/files.h"

namespace moonfence::test {

class FakeFiles final : public port::Files {
 public:
  Result<std::string> read(const std::string& path, std::size_t limit) override {
    ++reads_[path];
    const auto found = files_.find(path);
    if (found == files_.end()) {
      return failure(Error::Kind::NotFound, path + ": no such file");
    }
    if (found->second && found->second->size() > limit) {
      return failure(Error::Kind::Limit, path + ": larger than " + std::to_string(limit));
    }
    return found->second;
  }
  [[nodiscard]] std::optional<std::string> environment(const std::string& name) override {
    const auto found = environment_.find(name);
    return found == environment_.end() ? std::nullopt : std::optional(found->second);
  }

  void write(const std::string& path, std::string text) { files_[path] = std::move(text); }
  void remove(const std::string& path) { files_.erase(path); }
  void fail(const std::string& path, Error::Kind kind, const std::string& why) {
    files_[path] = failure(kind, path + ": " + why);
  }
  void set(const std::string& name, const std::string& value) { environment_[name] = value; }
  void unset(const std::string& name) { environment_.erase(name); }
  [[nodiscard]] int reads(const std::string& path) { return reads_[path]; }

 private:
  std::map<std::string, Result<std::string>> files_;
  std::map<std::string, std::string> environment_;
  std::map<std::string, int> reads_;
};

}  // namespace moonfence::test
