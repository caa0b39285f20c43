#include "app/settings.h"

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;

// The text of the error, "" when it is read.
std::string fault(const std::string& text) {
  const auto settings = parse_settings(text, "engine.yaml");
  return settings ? "" : settings.error().text;
}

TEST(Settings, an_empty_file_gives_the_defaults) {
  for (const char* text : {"", "# nothing\n", "api: 1\n"}) {
    const auto settings = parse_settings(text, "engine.yaml");
    ASSERT_TRUE(settings) << settings.error().text;
    EXPECT_EQ(settings->cache_expiry, 1h);
    EXPECT_EQ(settings->retry_interval, 5s);
    EXPECT_EQ(settings->retry_window, 25s);
  }
}

TEST(Settings, every_key_is_read) {
  const auto settings =
      parse_settings("api: 1\ncacheExpiry: 2h\nretryInterval: 1s500ms\nretryWindow: 1m\n", "f");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->cache_expiry, 2h);
  EXPECT_EQ(settings->retry_interval, 1500ms);
  EXPECT_EQ(settings->retry_window, 1min);
}

TEST(Settings, an_expiry_of_zero_means_never) {
  const auto settings = parse_settings("api: 1\ncacheExpiry: 0\n", "f");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->cache_expiry, 0s);
}

TEST(Settings, fencing_drivers_are_names_of_csi_drivers) {
  const auto settings = parse_settings(
      "api: 1\nfencingDrivers:\n- driver.longhorn.io\n- rook-ceph.rbd.csi.ceph.com\n", "f");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->fencing_drivers,
            (std::set<std::string>{"driver.longhorn.io", "rook-ceph.rbd.csi.ceph.com"}));
  EXPECT_EQ(fault("api: 1\nfencingDrivers: []\n"), "");
  for (const char* value :
       {"all", "[\"*\"]", "[\"\"]", "[a b]", "[.a]", "[a/b]", "[[a]]", "{a: b}"}) {
    const std::string text = fault("api: 1\nfencingDrivers: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:2:"), std::string::npos) << value << ": " << text;
  }
}

TEST(Settings, an_unknown_key_is_an_error_with_its_line_and_the_nearest_known_one) {
  const std::string text = fault("api: 1\n\nretryIntervall: 5s\n");
  EXPECT_NE(text.find("engine.yaml:3:"), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean 'retryInterval'?"), std::string::npos) << text;
}

TEST(Settings, a_value_of_the_wrong_kind_is_an_error_with_its_line) {
  for (const char* value : {"soon", "5", "-5s", "[5s]", "{a: 1}", "", "1e3s", "99999999999h"}) {
    const std::string text = fault("api: 1\nretryWindow: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:2:"), std::string::npos) << value << ": " << text;
    EXPECT_NE(text.find("retryWindow"), std::string::npos) << value << ": " << text;
  }
}

TEST(Settings, the_version_of_the_file_is_checked) {
  EXPECT_NE(fault("retryWindow: 30s\n"), "");
  EXPECT_NE(fault("api: 2\n"), "");
  EXPECT_NE(fault("api: [1]\n"), "");
}

TEST(Settings, a_file_that_is_no_mapping_is_an_error) {
  for (const char* text : {"- a\n", "hello\n", "api: 1\n  bad: [\n", "a: b: c\n", "\t\n- {"}) {
    EXPECT_NE(fault(text), "") << text;
  }
}

// Everything after the first document was passed over in silence.
TEST(Settings, a_second_document_is_an_error) {
  EXPECT_NE(fault("api: 1\n---\napi: 1\nretryInterval: 9s\n"), "");
  EXPECT_NE(fault(","), "") << "and this kept the parser busy for ever";
}

TEST(Settings, a_key_that_is_no_text_is_an_error) {
  EXPECT_NE(fault("api: 1\n[a, b]: 1\n"), "");
}

TEST(Settings, times_that_belong_together_are_checked_together) {
  EXPECT_NE(fault("api: 1\nretryInterval: 99ms\n"), "");
  EXPECT_EQ(fault("api: 1\nretryInterval: 100ms\n"), "");
  EXPECT_NE(fault("api: 1\nretryInterval: 30s\n"), "");  // longer than the window
  EXPECT_NE(fault("api: 1\nretryWindow: 4s\n"), "");
  EXPECT_NE(fault("api: 1\ncacheExpiry: 24s\n"), "");
  EXPECT_EQ(fault("api: 1\ncacheExpiry: 25s\n"), "");
}

TEST(Settings, a_term_that_could_not_be_kept_is_refused) {
  EXPECT_EQ(fault("api: 1\nleaseDuration: 30s\nleaseRenewDeadline: 20s\nleaseRetry: 4s\n"), "");
  for (const char* text :
       {"leaseDuration: 10s", "leaseRenewDeadline: 15s", "leaseRetry: 9s", "leaseRetry: 1ms",
        "leaseDuration: 15s500ms", "leaseDuration: 6s\nleaseRenewDeadline: 4s\nleaseRetry: 1s"}) {
    const std::string message = fault("api: 1\n" + std::string(text) + "\n");
    EXPECT_NE(message.find("lease"), std::string::npos) << text;
  }
}

TEST(Settings, a_time_that_would_overflow_is_refused) {
  EXPECT_EQ(fault("api: 1\ncacheExpiry: 8760h\n"), "");
  EXPECT_NE(fault("api: 1\ncacheExpiry: 8761h\n"), "");
  EXPECT_NE(fault("api: 1\nretryInterval: 200000h\nretryWindow: 200000h\ncacheExpiry: 0\n"), "");
}

}  // namespace
}  // namespace moonfence::app
