#include "app/cli/completion.h"

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/cli/man_page.h"
#include "app/cli/options.h"

namespace moonfence::app {
namespace {

using testing::HasSubstr;

CommandTree tree() {
  return {.name = "moonfence",
          .help = "fences",
          .footer = "\nExamples:\n  moonfence plan n1",
          .options = {{.flags = {"--version"}, .name = "", .type = "", .help = "Print it"}},
          .commands = {{.name = "plan",
                        .help = "Say what's to be done",
                        .footer = "\n.Exit codes: 0",
                        .options = {{.flags = {"-o", "--output"},
                                     .name = "",
                                     .type = "table|json",
                                     .help = "How",
                                     .words = {"table", "json"}},
                                    {.flags = {"--config"}, .type = "FILE", .help = "Which"},
                                    {.flags = {}, .name = "NODE", .type = "TEXT", .help = "Nodes"}},
                        .commands = {}}}};
}

TEST(Completion, KnowsCommandsFlagsAndTheirWords) {
  for (const char* shell : {"bash", "zsh"}) {
    const std::string script = completion_script(tree(), shell);
    EXPECT_THAT(script, HasSubstr("    '') choices='plan --version' ;;\n"));
    EXPECT_THAT(script, HasSubstr("    'plan') choices='-o --output --config' ;;\n"));
    EXPECT_THAT(script,
                HasSubstr("    'plan -o'|'plan --output') files=''; choices='table json' ;;\n"));
    EXPECT_THAT(script, HasSubstr("    'plan --config') files=''; choices='' files=any ;;\n"));
  }
  const std::string fish = completion_script(tree(), "fish");
  EXPECT_THAT(fish, HasSubstr(" -a plan -d 'Say what'\\''s to be done'\n"));
  EXPECT_THAT(fish, HasSubstr(" -s o -l output -x -a 'table json' -d 'How'\n"));
}

TEST(Completion, AnswersKubectlInItsOwnForm) {
  EXPECT_EQ(kubectl_answer(tree(), {""}), "plan\tSay what's to be done\n:4\n");
  EXPECT_EQ(kubectl_answer(tree(), {"--v"}), "--version\tPrint it\n:4\n");
  EXPECT_EQ(kubectl_answer(tree(), {"plan", ""}), ":4\n");
  EXPECT_EQ(kubectl_answer(tree(), {"plan", "n1", "-o", ""}), "table\njson\n:4\n");
  EXPECT_EQ(kubectl_answer(tree(), {"plan", "--output=j"}), "json\n:4\n");
  EXPECT_EQ(kubectl_answer(tree(), {"plan", "--config", "x"}), ":0\n");
  EXPECT_EQ(kubectl_answer(tree(), {"nonsense", "pl"}), "plan\tSay what's to be done\n:4\n");
  EXPECT_EQ(kubectl_answer(tree(), {}), "plan\tSay what's to be done\n:4\n");
}

TEST(ManPage, ATextIsNeverARequest) {
  const std::string page = man_page(tree(), "1.0");
  EXPECT_THAT(page, HasSubstr(".TH MOONFENCE 1 \"\" \"moonfence 1.0\" \"User Commands\"\n"));
  EXPECT_THAT(page, HasSubstr(".SS \"moonfence plan\"\nSay what's to be done.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fItable|json\\fR\nHow\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.Exit codes: 0\n"));
  EXPECT_THAT(page, HasSubstr("\\fINODE\\fR\nNodes\n"));
}

std::string printed(const std::vector<const char*>& words) {
  const Command command = parse_command_line(static_cast<int>(words.size()), words.data());
  const auto* leave = std::get_if<Leave>(&command);
  return leave == nullptr ? "" : leave->text;
}

TEST(Completion, IsMadeOfTheParsersOwnTable) {
  const std::string bash = printed({"moonfence", "completion", "bash"});
  EXPECT_THAT(bash, HasSubstr("'plan --output') files=''; choices='table wide json yaml' ;;"));
  EXPECT_THAT(bash, HasSubstr("'run --mode') files=''; choices='observe enforce off' ;;"));
  EXPECT_THAT(bash, HasSubstr("'completion') choices='-h --help --help-all bash zsh fish' ;;"));
  EXPECT_THAT(bash, HasSubstr("'policy test'"));
  EXPECT_THAT(printed({"moonfence", "man"}), HasSubstr(".SS \"moonfence policy eval\""));
}

TEST(Plugin, SpeaksAsKubectlDoes) {
  EXPECT_THAT(printed({"/usr/bin/kubectl-moonfence", "plan", "--help"}),
              HasSubstr("kubectl moonfence plan"));
  EXPECT_THAT(printed({"kubectl-moonfence"}), HasSubstr("Subcommands:"));
  EXPECT_EQ(printed({"/usr/bin/kubectl_complete-moonfence", "completion", "z"}), "zsh\n:4\n");
}

// A flag that takes a value must not look like one that takes none, nor the reverse.
TEST(Completion, TellsFlagsFromOptions) {
  const std::string bash = printed({"moonfence", "completion", "bash"});
  EXPECT_THAT(bash, testing::Not(HasSubstr("'plan --assume-down')")));
  EXPECT_THAT(bash, HasSubstr("'run --kubeconfig') files=''; choices='' files=any"));
}

TEST(ClientOptions, AreParsed) {
  const std::vector<const char*> words = {"moonfence", "plan",      "n1", "n2", "--assume-down",
                                          "-o",        "yaml",      "-n", "m",  "--mode",
                                          "enforce",   "--context", "c"};
  const Command command = parse_command_line(static_cast<int>(words.size()), words.data());
  const auto* options = std::get_if<ClientOptions>(&command);
  ASSERT_NE(options, nullptr);
  EXPECT_EQ(options->verb, ClientOptions::Verb::Plan);
  EXPECT_THAT(options->names, testing::ElementsAre("n1", "n2"));
  EXPECT_TRUE(options->assume_down);
  EXPECT_EQ(options->form(), OutputForm::Yaml);
  EXPECT_EQ(options->engine_namespace, "m");
}

TEST(ClientOptions, FencersAreCheckedByACommandOfTheirGroup) {
  const std::vector<const char*> words = {"moonfence", "fencer", "check", "n1",       "n2",    "-o",
                                          "json",      "-n",     "m",     "--config", "c.yaml"};
  const Command command = parse_command_line(static_cast<int>(words.size()), words.data());
  const auto* options = std::get_if<ClientOptions>(&command);
  ASSERT_NE(options, nullptr);
  EXPECT_EQ(options->verb, ClientOptions::Verb::FencerCheck);
  EXPECT_THAT(options->names, testing::ElementsAre("n1", "n2"));
  EXPECT_EQ(options->form(), OutputForm::Json);
  EXPECT_EQ(options->engine_namespace, "m");
  EXPECT_EQ(options->config, "c.yaml");
  EXPECT_THAT(printed({"moonfence", "fencer"}), HasSubstr("A subcommand is required"));
}

TEST(ClientOptions, ARehearsalWantsItsNodeAndItsNodeOnceMore) {
  const std::vector<const char*> words = {"moonfence", "fencer", "rehearse",       "n1",
                                          "--yes",     "n1",     "--control-plane"};
  const Command command = parse_command_line(static_cast<int>(words.size()), words.data());
  const auto* options = std::get_if<ClientOptions>(&command);
  ASSERT_NE(options, nullptr);
  EXPECT_EQ(options->verb, ClientOptions::Verb::FencerRehearse);
  EXPECT_THAT(options->names, testing::ElementsAre("n1"));
  EXPECT_EQ(options->yes, "n1");
  EXPECT_TRUE(options->control_plane);
  EXPECT_THAT(printed({"moonfence", "fencer", "rehearse"}), HasSubstr("NODE is required"));
  EXPECT_THAT(printed({"moonfence", "fencer", "rehearse", "n1", "n2"}), HasSubstr("At Most 1"));
  EXPECT_THAT(printed({"moonfence", "fencer", "rehearse", "n1", "--yes", "n2"}),
              HasSubstr("'n2' is not the node"));
}

TEST(ClientOptions, NonsenseIsRefusedWithANextStep) {
  EXPECT_THAT(printed({"moonfence", "plans", "n1"}),
              testing::AllOf(HasSubstr("there is no command 'plans'; there are run, policy, "),
                             HasSubstr("--help")));
  EXPECT_THAT(printed({"moonfence", "plan"}), HasSubstr("NODE is required"));
  EXPECT_THAT(printed({"moonfence", "plan", "n1", "--policy", "x.lua"}),
              HasSubstr("--policy-namespace is missing: name the one namespace"));
  EXPECT_THAT(printed({"moonfence", "status", "-n", "No Space"}), HasSubstr("is no namespace"));
  EXPECT_THAT(printed({"moonfence", "status", "-o", "wide"}), HasSubstr("-o"));
}

// The page has the help of every command.
TEST(ManPage, EveryCommandHasExamplesAndNoDefaultThatItWouldRefuse) {
  const std::string page = printed({"moonfence", "man"});
  const std::string heading = ".SS \"";
  std::size_t commands = 0;
  for (auto at = page.find(heading); at != std::string::npos; ++commands) {
    const auto next = page.find(heading, at + 1);
    const std::string section = page.substr(at, next - at);
    EXPECT_THAT(section.substr(0, section.find(".SH")), HasSubstr("\nExample")) << section;
    at = next;
  }
  EXPECT_GT(commands, 20U);
  const std::regex choice(R"(\\fI(\S+\|\S+)\\fR\n.*\(default: ([a-z]+)\))");
  std::size_t choices = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), choice), end; it != end; ++it, ++choices) {
    EXPECT_THAT("|" + it->str(1) + "|", HasSubstr("|" + it->str(2) + "|")) << it->str();
  }
  EXPECT_GT(choices, 5U);
}

}  // namespace
}  // namespace moonfence::app
