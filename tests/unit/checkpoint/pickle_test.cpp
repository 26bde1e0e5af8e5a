#include "sim/checkpoint/pickle.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"

using namespace shardlab;

namespace {

using Kind = PickleKind;

/// Bytes with zeros in them.
template <std::size_t kSize>
std::string bytes(const char (&text)[kSize]) {
  return {text, kSize - 1};
}

bool knows(std::string_view type) { return type == "torch Size" || type == "m f"; }

Pickle read(std::string text, PickleRules::Others others = PickleRules::Others::kRefused) {
  return Pickle::read("x.pkl", std::move(text), {.knows = knows, .others = others});
}

std::string pickle_fault(std::string text) {
  try {
    read(std::move(text));
    return "";
  } catch (const Error& error) {
    return error.summary();
  }
}

}  // namespace

// The texts are those of Python's pickle.dumps; expected values are what was dumped.

TEST_CASE("a pickle of protocol 4 gives its values") {
  // {"a": [1, -2, 300, 70000, 2.5, True, None], "b": (1, "é"), 7: ()}
  const Pickle pickle = read(
      bytes("\x80\x04\x95\x37\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
            "a\x94]\x94(K\x01J\xfe\xff\xff\xffM,\x01Jp\x11\x01\x00G@\x04\x00\x00\x00\x00\x00\x00"
            "\x88Ne\x8c\x01"
            "b\x94K\x01\x8c\x02\xc3\xa9\x94\x86\x94K\x07)u."));
  const PickleValue root = pickle.root();
  REQUIRE(root.is(Kind::kDict));
  REQUIRE(root.size() == 3);
  const PickleValue list = root.at("a");
  CHECK(list.size() == 7);
  CHECK(list.at(0).integer() == 1);
  CHECK(list.at(1).integer() == -2);
  CHECK(list.at(2).integer() == 300);
  CHECK(list.at(3).integer() == 70000);
  CHECK(list.at(4).real() == 2.5);
  CHECK(list.at(5).is(Kind::kBool));
  CHECK(list.at(5).integer() == 1);
  CHECK(list.at(6).is(Kind::kNone));
  CHECK(root.at("b").at(1).text() == "\xc3\xa9");
  CHECK(root.key(2).integer() == 7);
  CHECK(root.at(2).size() == 0);
  CHECK_FALSE(root.find("c"));
  CHECK(root.print(50) == "{\"a\": [1, -2, 300, 70000, 2.5, True, None], \"b\": (...), ...}");
  CHECK_THROWS_WITH_AS(root.at("c"), doctest::Contains("x.pkl: 'c' is expected in it"), Error);
  CHECK_THROWS_WITH_AS(list.at(4).integer(),
                       doctest::Contains("an integer is expected, and it is 2.5"), Error);
}

TEST_CASE("a pickle of protocol 2 keeps values in numbered places") {
  // x = [1]; {"p": x, "q": x, "n": 2**40, "m": -1 - 2**70}
  const Pickle pickle = read(
      bytes("\x80\x02}q\x00(X\x01\x00\x00\x00pq\x01]q\x02K\x01"
            "aX\x01\x00\x00\x00qq\x03h\x02X\x01\x00\x00\x00nq\x04\x8a\x06\x00\x00\x00\x00\x00\x01"
            "X\x01\x00\x00\x00mq\x05\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xbfu."));
  const PickleValue root = pickle.root();
  CHECK(root.at("q").at(0).integer() == 1);
  CHECK(root.at("n").integer() == std::int64_t{1} << 40);
  CHECK(root.at("m").is(Kind::kLong));
  CHECK(root.at("m").text() == "\xff\xff\xff\xff\xff\xff\xff\xff\xbf");
}

TEST_CASE("a list that is filled in many parts has all entries in order") {
  std::string text = "\x80\x02]";
  for (int i = 0; i < 100; ++i) text += std::string("K") + static_cast<char>(i) + "a";
  text +=
      "(K\x01K\x02"
      "e.";
  const Pickle pickle = read(text);
  REQUIRE(pickle.root().size() == 102);
  for (std::size_t i = 0; i < 100; ++i) CHECK(pickle.root().at(i).integer() == i);
  CHECK(pickle.root().at(101).integer() == 2);
}

TEST_CASE("classes that are known become records, and OrderedDict a dict") {
  // torch.Size([3, 4]), as protocol 2 writes it
  const Pickle size =
      read(bytes("\x80\x02"
                 "ctorch\nSize\nq\x00K\x03K\x04\x86\x85R."));
  CHECK(size.root().is(Kind::kRecord));
  CHECK(size.root().type() == "torch Size");
  CHECK(size.root().known());
  CHECK(size.root().arguments().at(0).at(1).integer() == 4);
  CHECK_FALSE(size.root().state());
  // OrderedDict(a=1) with an attribute
  const Pickle dict =
      read(bytes("\x80\x02"
                 "ccollections\nOrderedDict\n)RX\x01\x00\x00\x00"
                 "aK\x01s}X\x01\x00\x00\x00vK\x02sb."));
  CHECK(dict.root().is(Kind::kDict));
  CHECK(dict.root().size() == 1);
  // m.f(), with fields; with slots, too
  const Pickle record =
      read(bytes("\x80\x04\x8c\x01m\x8c\x01"
                 "f\x93)\x81}\x8c\x01xK\x05sb."));
  CHECK(record.root().at("x").integer() == 5);
  const Pickle slots =
      read(bytes("\x80\x04\x8c\x01m\x8c\x01"
                 "f\x93)\x81N}\x8c\x01xK\x05s\x86"
                 "b."));
  CHECK(slots.root().at("x").integer() == 5);
  const Pickle stored = read(bytes("\x80\x02X\x01\x00\x00\x00kQ."));
  CHECK(stored.root().is(Kind::kStored));
  CHECK(stored.root().arguments().text() == "k");
}

TEST_CASE("B-50 classes that are not known are refused, or inert") {
  const std::string system = bytes(
      "\x80\x02"
      "cos\nsystem\nX\x04\x00\x00\x00true\x85R.");
  CHECK(pickle_fault(system) == "x.pkl: the pickle has a os.system (GLOBAL at byte 2)");
  const Pickle inert = read(system, PickleRules::Others::kInert);
  CHECK(inert.has_others());
  CHECK_FALSE(inert.root().known());
  CHECK(inert.root().type() == "os system");
  CHECK(inert.root().print() == "<os system, (\"true\")>");
  // One that takes entries, as a subclass of dict does.
  const Pickle counter = read(bytes("\x80\x02"
                                    "ccollections\nCounter\n)RX\x01\x00\x00\x00"
                                    "aK\x01s."),
                              PickleRules::Others::kInert);
  CHECK(counter.root().print() == "<collections Counter, (), None, {\"a\": 1}>");
}

TEST_CASE("opcodes that are not read are named, with their byte") {
  CHECK(pickle_fault("\x80\x02(lp0\n.") ==
        "x.pkl: the pickle has the opcode LIST at byte 3, which is not read");
  CHECK(pickle_fault("\x80\x04\x8f.") ==
        "x.pkl: the pickle has the opcode EMPTY_SET at byte 2, which is not read");
  CHECK(pickle_fault("\x80\x04\xff.") ==
        "x.pkl: the pickle has the opcode 0xff at byte 2, which is not read");
}

TEST_CASE("damaged pickles are refused, without taking memory") {
  for (const std::string& text : {std::string(),
                                  bytes("\x80\x04"),
                                  bytes("\x80\x04K"),
                                  bytes("\x80\x06N."),
                                  bytes("."),
                                  bytes("\x80\x04\x8d\x00\x00\x00\x00\x00\x00\x00\x80"
                                        "a."),
                                  bytes("X\xff\xff\xff\xff"
                                        "a."),
                                  bytes("h\x00."),
                                  bytes("Nr\xff\xff\xff\x7f."),
                                  bytes("\x85."),
                                  bytes("K\x01\x86."),
                                  bytes("t."),
                                  bytes("e."),
                                  bytes("a."),
                                  bytes("K\x01"
                                        "a."),
                                  bytes("]a."),
                                  bytes("]Ns."),
                                  bytes("](Nu."),
                                  bytes("(]e."),
                                  bytes("}(Nu."),
                                  bytes("NNR."),
                                  bytes("NNb."),
                                  bytes("NN\x93."),
                                  bytes("cm"),
                                  bytes("cm\nf"),
                                  bytes("(."),
                                  bytes("N(."),
                                  bytes("\x95\xff\xff\xff\xff\xff\xff\xff\xff."),
                                  bytes("cm\nf\nNR.")}) {
    CAPTURE(text);
    CHECK_FALSE(pickle_fault(text).empty());
  }
  CHECK(pickle_fault(bytes("\x80\x04\x8d\x00\x00\x00\x00\x00\x00\x00\x80"
                           "a.")) ==
        "x.pkl: the pickle is damaged: BINUNICODE8 at byte 2 goes on after the end");
  // 16 bytes for each of one.
  CHECK(pickle_fault(std::string(40 << 20, ']')).find("one value more") != std::string::npos);
}

TEST_CASE("values that contain themselves or each other many times are printed in short") {
  const Pickle circle =
      read(bytes("\x80\x02]q\x00h\x00"
                 "a."));
  CHECK(circle.root().print().size() < 160);
  std::string text = "\x80\x04";
  for (int i = 0; i < 60; ++i) {
    text += "]\x94(";
    for (int k = 0; k < 4; ++k)
      text += i == 0 ? std::string("N") : std::string("h") + static_cast<char>(i - 1);
    text += "e";
  }
  const Pickle laughs = read(text + ".");
  CHECK(laughs.root().print(1000).size() < 1500);
}
