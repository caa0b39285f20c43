// What the page beside each fencer tells people to write is a configuration that is taken.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "app/engine/load_fencers.h"
#include "app/settings/settings.h"
#include "support/fake_files.h"
#include "support/policies.h"

namespace moonfence::app {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(FencerPages, each_shows_a_configuration_that_is_taken) {
  int pages = 0;
  for (const auto& folder : std::filesystem::directory_iterator(MOONFENCE_SOURCE_DIR "/fencers")) {
    const std::string name = folder.path().filename();
    const std::string page = text_of(folder.path() / "README.md");
    const std::string begin = "```yaml\n";
    const auto from = page.find(begin);
    if (page.empty()) {
      continue;  // redfish: docs/proof.md
    }
    ASSERT_NE(from, std::string::npos) << name;
    const std::string shown =
        page.substr(from + begin.size(), page.find("```\n", from + 1) - from - begin.size());
    const auto settings = parse_settings("api: 1\n" + shown, name);
    ASSERT_TRUE(settings) << settings.error().message();
    test::FakeFiles files;
    StoppedCpuClock clock;
    const auto loaded = load_fencers(*settings, files, clock);
    ASSERT_TRUE(loaded) << loaded.error().message();
    ASSERT_EQ(loaded->size(), 1U) << name;
    EXPECT_EQ(loaded->front().fencer->name(), name);
    const auto& values = loaded->front().fencer->settings_values();
    EXPECT_TRUE(!values.contains("endpoint") || settings->endpoints.contains(name))
        << "the default of its setting `endpoint`";
    const bool only_reads = name == "fence-agents-remediation";
    EXPECT_TRUE(loaded->front().fencer->act() ==
                (only_reads ? policy::FencerAct::None : policy::FencerAct::SwitchOff))
        << name;
    ++pages;
  }
  EXPECT_EQ(pages, 9);
}

}  // namespace
}  // namespace moonfence::app
