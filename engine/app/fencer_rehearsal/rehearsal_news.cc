#include "app/fencer_rehearsal/rehearsal_news.h"

namespace moonfence::app {

using kube::EventNews;

namespace {

EventNews news_of(const kube::Node& node) {
  return {.type = EventNews::Type::Normal,
          .regarding = {.api_version = "v1",
                        .kind = "Node",
                        .space = {},
                        .name = node.name.text(),
                        .uid = node.uid},
          .action = "SwitchOff",
          .reason = {},
          .note = {}};
}

// Who reads it, where that is another one than the one that was told.
std::string by(const ReadOff& off) {
  return off.reader == off.fencer ? "" : " by fencer " + off.reader;
}

}  // namespace

EventNews news_of_beginning(const kube::Node& node, const std::string& user,
                            const std::string& fencer) {
  EventNews news = news_of(node);
  news.reason = "FencerRehearsal";
  news.note = user + " has its machine switched off by fencer " + fencer +
              ", to see whether that works (moonfence fencer rehearse)";
  return news;
}

EventNews news_of_nothing(const kube::Node& node, const std::string& why) {
  EventNews news = news_of(node);
  news.reason = "FencerRehearsal";
  news.note = "Nobody was told to switch its machine off: " + why;
  return news;
}

EventNews news_of_proof(const kube::Node& node, const ReadOff& off, const std::string& user) {
  EventNews news = news_of(node);
  news.reason = "FencerProven";
  news.note = "fencer " + off.fencer + " has switched its machine off, and it is read" + by(off) +
              " to be off; " + user + " switches it on again";
  return news;
}

EventNews news_of_failure(const kube::Node& node, const std::string& fencer,
                          const std::string& why) {
  EventNews news = news_of(node);
  news.type = EventNews::Type::Warning;
  news.reason = "FencerNotProven";
  news.note = "fencer " + fencer + " could not be shown to switch its machine off: " + why;
  return news;
}

std::string proven_text(const kube::Node& node, const ReadOff& off) {
  const std::string name = node.name.text();
  return "Proven: fencer " + off.fencer + " switches the machine of node " + name +
         " off, and it is read" + by(off) +
         " to be off.\n"
         "Next: switch it on again, which moonfence never does; wait until it is Ready; kubectl "
         "uncordon " +
         name + "\n";
}

std::string unproven_text(const kube::Node& node, const std::string& why) {
  return "moonfence: NOT PROVEN: " + why + "\nThe machine of node " + node.name.text() +
         " may be off, or on: go and look. Then mend the fencer (docs/proof.md, Rehearse), switch "
         "the machine on if it is off, and rehearse again.\n";
}

std::string unwritten_text(const ReadOff& off, const std::string& why) {
  return "it is read" + by(off) +
         " to be off, but the Event that says so could not be written. Where the API server takes "
         "no writes, that the kubelet's Lease stands still shows nothing: " +
         why;
}

}  // namespace moonfence::app
