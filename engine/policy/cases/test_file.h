#pragma once

// A file of test cases (NAME_test.lua): declarative tables, read in the sandbox that runs policies,
// with three more names: tests, case, fixture. Reading it checks the form of every case; what a
// policy makes of them is test_run.h's business.

#include <chrono>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "policy/cases/fixture.h"
#include "port/cpu_clock.h"
#include "port/files.h"

namespace moonfence::policy {

struct Expectation {
  enum class Outcome {
    Decided,      // `verdict` says how
    NotSelected,  // the policy's selector leaves the pod out
    Deferred,     // a need could not be had, so the policy is not asked
    Error,        // the policy fails
  };
  // What is asked of the policy.
  enum class Of { Pod, Node, Source };
  Of of = Of::Pod;
  Outcome outcome = Outcome::Decided;
  std::string verdict;                              // as fence.NAME; empty unless Decided
  std::optional<std::string> reason;                // exact, or a part of it after "~"
  std::optional<double> seconds;                    // of a wait; of attachments, theirs
  std::optional<std::string> message;               // part of the error's text
  std::vector<std::string> reads;                   // paths of inputs that must have been read
  std::optional<std::vector<std::string>> volumes;  // claims of the volumes a verdict names
  std::optional<bool> release;                      // of delete_pod_and_attachments
  std::optional<bool> fail;                         // of what deletes the pod
  std::optional<std::string> on_timeout;            // of delete_attachments: "hold", "delete"
  std::optional<EvidenceSet> proof;                 // of what deletes or evicts
  std::map<std::string, std::string> nodes;         // of a Source: every node it names
};

struct TestCase {
  std::string name;
  int line = 0;  // where it stands in its file
  Objects objects;
  std::string pod;                                  // "NAME" or "NAMESPACE/NAME"; "": the only one
  nlohmann::json patch = nlohmann::json::object();  // by input path
  nlohmann::json settings = nlohmann::json::object();
  nlohmann::json responses = nlohmann::json::object();  // by request
  std::vector<std::string> fail;                        // needs that cannot be had
  std::optional<WallTime> now;
  Expectation expect;
};

struct TestFile {
  std::string file;  // as messages show it
  std::vector<TestCase> cases;
};

// What reading a file may take. As they are they fit a tool that somebody waits for.
struct TestLimits {
  Duration cpu = std::chrono::seconds(2);
  std::size_t memory_bytes = 64U << 20U;  // of Lua
  // Of text, all fixtures together.
  std::size_t fixture_bytes = std::numeric_limits<std::size_t>::max();
  // The same, once for each case that uses it.
  std::size_t object_bytes = std::numeric_limits<std::size_t>::max();
};

// Fixtures are read from the folder of `path`. An error names line, case, key and rule.
[[nodiscard]] Result<TestFile> read_test_file(const std::string& source, const std::string& path,
                                              port::Files& files, port::CpuClock& clock,
                                              const TestLimits& limits = {});

// What `kubectl get -o json` prints as single objects: an object, a List, or a list of both.
// `place` stands in messages.
[[nodiscard]] Result<void> add_objects(const nlohmann::json& value, const std::string& place,
                                       Objects& into);

// RFC 3339 or Unix seconds.
[[nodiscard]] std::optional<WallTime> time_of(const nlohmann::json& value);

// "my-db_test.lua", "noobaa/policy.lua": how messages name a file.
[[nodiscard]] std::string display_of(std::string_view path);
// Of a path, "" when it has none; with its slash: "policies/noobaa/".
[[nodiscard]] std::string folder_of(std::string_view path);

}  // namespace moonfence::policy
