// moonfence-sim: lives through worlds drawn by seed, with the product's own engine in each.
//
//   moonfence-sim --seed N [--story]           one world, told line by line with --story
//   moonfence-sim --seed N --plan              the world as a scenario text
//   moonfence-sim --scenario F...              scenario files, held against what they expect
//   moonfence-sim --seeds A..B [--twice] [--jobs N]   many; --twice compares the audit hashes
//   moonfence-sim --seeds A..B --without-proof        as if nobody demanded any
//   moonfence-sim --file tests/seeds/seeds.txt [--twice]     those of a file, "N what it was"
//   moonfence-sim --default-world [--bench] [--story]  the default world; --bench: how many a
//   second moonfence-sim --rules                      what runs are judged by
//
// Each violation is printed with its seed, its rule and the command that shows it again. The exit
// code is 1 when there was one, 2 when the command line is wrong.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/simulate/sim_replica.h"
#include "app/simulate/simulate_command.h"
#include "app/simulate/simulate_setup.h"
#include "os/system/system_files.h"
#include "sim/draw.h"
#include "sim/scenario_writer.h"
#include "sim/scenarios/scenario.h"
#include "sim/truth/rules.h"
#include "sim/world/world.h"

namespace moonfence {
namespace {

struct Options {
  std::vector<std::uint64_t> seeds;
  bool is_default = false;
  bool bench = false;
  bool story = false;
  bool twice = false;
  bool go_on = false;
  bool without_proof = false;
  unsigned jobs = 1;
};

struct Sum {
  std::uint64_t worlds = 0;
  std::uint64_t failed = 0;
  std::uint64_t deletions = 0;
  std::uint64_t incidents = 0;
  std::uint64_t turns = 0;
  std::uint64_t double_writers = 0;
  std::uint64_t overlaps = 0;
  std::uint64_t with_overlaps = 0;  // worlds
  std::uint64_t isolated = 0;
};

std::string_view word(sim::Happening::Kind kind) {
  constexpr std::array<std::string_view, 10> kWords = {"machine",  "node",     "pod",   "volume",
                                                       "policies", "engine",   "audit", "call",
                                                       "fault",    "VIOLATION"};
  return kWords[static_cast<std::size_t>(kind)];
}

void print(const sim::Happening& happening) {
  const double at = std::chrono::duration<double>(happening.at).count();
  std::printf("%10.4f %-9.*s %-18s %s%s%s\n", at, static_cast<int>(word(happening.kind).size()),
              word(happening.kind).data(), happening.subject.c_str(), happening.what.c_str(),
              happening.detail.empty() ? "" : "  ", happening.detail.c_str());
}

sim::ReplicaFactory engines_for(const sim::Plan& plan) {
  app::SimReplicaOptions options;
  const auto settings = app::settings_of(plan);
  if (!settings) {
    std::fprintf(stderr, "moonfence-sim: %s\n", settings.error().message().c_str());
    std::exit(2);
  }
  options.settings = *settings;
  options.leader_elect = plan.engines > 1;
  auto endpoints = app::EndpointScript::parse(plan.responses, "responses");
  if (!endpoints) {
    std::fprintf(stderr, "moonfence-sim: %s\n", endpoints.error().message().c_str());
    std::exit(2);
  }
  options.endpoints = std::move(*endpoints);
  return app::make_sim_replicas(options);
}

sim::Outcome live(const sim::Plan& plan, std::uint64_t seed, const Options& options) {
  sim::Story story;
  if (options.story) {
    story.listen(print);
  }
  sim::World world(plan, seed, engines_for(plan), story);
  return world.run(!options.go_on);
}

void add(Sum& sum, const sim::Outcome& outcome) {
  ++sum.worlds;
  sum.deletions += static_cast<std::uint64_t>(outcome.deletions);
  sum.incidents += static_cast<std::uint64_t>(outcome.incidents_opened);
  sum.turns += outcome.turns;
  sum.double_writers += static_cast<std::uint64_t>(outcome.accepted_double_writers);
  sum.overlaps += static_cast<std::uint64_t>(outcome.overlaps);
  sum.with_overlaps += outcome.overlaps > 0 ? 1U : 0U;
  sum.isolated += static_cast<std::uint64_t>(outcome.isolated);
}

sim::Plan plan_of(std::uint64_t seed, const Options& options) {
  sim::Plan plan = options.is_default ? sim::default_world() : sim::draw(seed);
  if (options.without_proof) {
    plan.settings.erase("proof");
    if (const auto of_volumes = plan.settings.find(std::string(sim::kVolumeProofWord));
        of_volumes != plan.settings.end()) {
      of_volumes->second.clear();  // and these are what is looked at
    }
  }
  return plan;
}

// True when the world kept all rules, and the same ones the second time.
bool try_seed(std::uint64_t seed, const Options& options, Sum& sum) {
  const sim::Plan plan = plan_of(seed, options);
  const std::string again = std::string("scripts/sim ") +
                            (options.is_default ? "--default-world " : "") +
                            (options.without_proof ? "--without-proof " : "") + "--seed " +
                            std::to_string(seed) + " --story";
  const sim::Outcome outcome = live(plan, seed, options);
  add(sum, outcome);
  for (const sim::Violation& violation : outcome.violations) {
    std::printf("seed %llu at %.4f s: %s: %s\n  %s\n", static_cast<unsigned long long>(seed),
                std::chrono::duration<double>(violation.at).count(), violation.rule.c_str(),
                violation.text.c_str(), again.c_str());
  }
  bool ok = outcome.violations.empty();
  if (options.twice) {
    const sim::Outcome second = live(plan, seed, options);
    if (second.audit_hash != outcome.audit_hash) {
      std::printf("seed %llu: same-hash: the second run differs from the first\n  %s\n",
                  static_cast<unsigned long long>(seed), again.c_str());
      ok = false;
    }
  }
  sum.failed += ok ? 0U : 1U;
  if (options.seeds.size() == 1 && !options.bench) {
    std::printf(
        "%s\naudit %s, %d deletions, %d incidents opened, %d closed, %llu turns, %d accepted "
        "double writers, %d overlaps, %d deletions by isolation\n",
        sim::describe(plan).c_str(), outcome.audit_hash.c_str(), outcome.deletions,
        outcome.incidents_opened, outcome.incidents_closed,
        static_cast<unsigned long long>(outcome.turns), outcome.accepted_double_writers,
        outcome.overlaps, outcome.isolated);
  }
  std::fflush(stdout);
  return ok;
}

Sum try_share(const Options& options, unsigned job) {
  Sum sum;
  for (std::size_t i = job; i < options.seeds.size(); i += options.jobs) {
    (void)try_seed(options.seeds[i], options, sum);
  }
  return sum;
}

// Processes, not threads: a world knows no locks.
Sum try_all(const Options& options) {
  if (options.jobs == 1) {
    return try_share(options, 0);
  }
  struct Job {
    pid_t pid;
    int result;
  };
  std::vector<Job> jobs;
  jobs.reserve(options.jobs);
  for (unsigned job = 0; job < options.jobs; ++job) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) {
      std::perror("pipe");
      std::exit(2);
    }
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      const Sum sum = try_share(options, job);
      const bool told = write(ends[1], &sum, sizeof sum) == static_cast<ssize_t>(sizeof sum);
      std::_Exit(told ? 0 : 1);
    }
    close(ends[1]);
    jobs.push_back({.pid = pid, .result = ends[0]});
  }
  Sum all;
  for (const Job& job : jobs) {
    Sum sum;
    int status = 0;
    const bool told = read(job.result, &sum, sizeof sum) == static_cast<ssize_t>(sizeof sum);
    waitpid(job.pid, &status, 0);
    if (!told) {
      std::printf("a process died: status %d\n", status);
      ++all.failed;
    }
    all.worlds += sum.worlds;
    all.failed += sum.failed;
    all.deletions += sum.deletions;
    all.incidents += sum.incidents;
    all.turns += sum.turns;
    all.double_writers += sum.double_writers;
    all.overlaps += sum.overlaps;
    all.with_overlaps += sum.with_overlaps;
    all.isolated += sum.isolated;
  }
  return all;
}

int bench() {
  const Options options{.is_default = true, .bench = true};
  // Of processor time: what else runs on the machine does not count.
  const auto seconds_since = [](std::clock_t start) {
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  Sum warm;
  (void)try_seed(0, options, warm);
  Sum sum;
  const std::clock_t start = std::clock();
  for (std::uint64_t seed = 1; seconds_since(start) < 5; ++seed) {
    if (!try_seed(seed, options, sum)) {
      return 1;
    }
  }
  std::printf("%.1f worlds a second on one core: %s\n",
              static_cast<double>(sum.worlds) / seconds_since(start),
              sim::describe(sim::default_world()).c_str());
  return 0;
}

std::optional<std::uint64_t> to_number(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::strtoull(text.c_str(), nullptr, 10);
}

bool read_range(const std::string& text, std::vector<std::uint64_t>& seeds) {
  const auto dots = text.find("..");
  if (dots == std::string::npos) {
    return false;
  }
  const auto from = to_number(text.substr(0, dots));
  const auto to = to_number(text.substr(dots + 2));
  if (!from || !to || *to < *from || *to - *from > 100'000'000) {
    return false;
  }
  seeds.reserve(*to - *from + 1);
  for (std::uint64_t seed = *from; seed <= *to; ++seed) {
    seeds.push_back(seed);
  }
  return true;
}

// One seed a line, and after it what it found once; '#' begins a comment.
bool read_file(const std::string& path, std::vector<std::uint64_t>& seeds) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (const auto seed = to_number(first)) {
      seeds.push_back(*seed);
    }
  }
  return file.eof() && !seeds.empty();
}

int usage() {
  std::fprintf(
      stderr,
      "usage: moonfence-sim --seed N [--story] | --seeds A..B [--twice] [--jobs N] "
      "[--without-proof] | "
      "--seed N --plan | --scenario F... | --file F | --default-world [--bench] [--story] | "
      "--rules\n");
  return 2;
}

int print_rules() {
  for (const sim::Rule& rule : sim::all_rules()) {
    std::printf("%-18.*s %.*s\n", static_cast<int>(rule.name.size()), rule.name.data(),
                static_cast<int>(rule.text.size()), rule.text.data());
  }
  return 0;
}

int run_scenarios(const std::vector<std::string>& paths) {
  os::SystemFiles files;
  int failed = 0;
  for (const std::string& path : paths) {
    const auto exit = app::run_scenario_file(path, files, [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
    });
    failed += exit == app::SimulateExit::Ok ? 0 : 1;
    std::fflush(stdout);
  }
  std::printf("%zu passed, %d failed\n", paths.size() - static_cast<std::size_t>(failed), failed);
  return failed == 0 ? 0 : 1;
}

// False when it is not understood.
bool read_argument(const std::vector<std::string>& arguments, std::size_t& i, Options& options) {
  const std::string& argument = arguments[i];
  if (argument == "--story") {
    options.story = true;
  } else if (argument == "--twice") {
    options.twice = true;
  } else if (argument == "--go-on") {  // after a violation
    options.go_on = true;
  } else if (argument == "--without-proof") {
    options.without_proof = true;
  } else if (argument == "--bench") {
    options.bench = true;
  } else if (argument == "--default-world") {
    options.is_default = true;
  } else if (i + 1 == arguments.size()) {
    return false;
  } else {
    const std::string& value = arguments[++i];
    const auto parsed = to_number(value);
    if (argument == "--seed" && parsed) {
      options.seeds.push_back(*parsed);
    } else if (argument == "--jobs" && parsed && *parsed > 0 && *parsed <= 256) {
      options.jobs = static_cast<unsigned>(*parsed);
    } else if (argument == "--seeds") {
      return read_range(value, options.seeds);
    } else if (argument == "--file") {
      return read_file(value, options.seeds);
    } else {
      return false;
    }
  }
  return true;
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  if (arguments == std::vector<std::string>{"--rules"}) {
    return print_rules();
  }
  if (arguments.size() > 1 && arguments.front() == "--scenario") {
    return run_scenarios({arguments.begin() + 1, arguments.end()});
  }
  if (arguments.size() == 3 && arguments[0] == "--seed" && arguments[2] == "--plan") {
    const auto seed = to_number(arguments[1]);
    return seed ? std::fputs(sim::write_scenario(sim::draw(*seed)).c_str(), stdout) < 0 ? 1 : 0
                : usage();
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!read_argument(arguments, i, options)) {
      return usage();
    }
  }
  if (options.is_default && options.seeds.empty()) {
    options.seeds = {0};
  }
  if (options.seeds.empty() || (options.bench && !options.is_default)) {
    return usage();
  }
  if (options.bench) {
    return bench();
  }
  const Sum sum = try_all(options);
  if (options.seeds.size() > 1) {
    std::printf(
        "%llu worlds, %llu failed, %llu incidents, %llu deletions, %llu turns, %llu accepted "
        "double writers, %llu overlaps in %llu worlds, %llu deletions by isolation\n",
        static_cast<unsigned long long>(sum.worlds), static_cast<unsigned long long>(sum.failed),
        static_cast<unsigned long long>(sum.incidents),
        static_cast<unsigned long long>(sum.deletions), static_cast<unsigned long long>(sum.turns),
        static_cast<unsigned long long>(sum.double_writers),
        static_cast<unsigned long long>(sum.overlaps),
        static_cast<unsigned long long>(sum.with_overlaps),
        static_cast<unsigned long long>(sum.isolated));
  }
  return sum.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace moonfence

int main(int argc, char** argv) {
  // A world is thrown away as a whole; its memory serves the next one and need not go back between.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  return moonfence::run(std::vector<std::string>(argv + 1, argv + argc));
}
