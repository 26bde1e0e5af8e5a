// Frames over a connection, for every way in which the bytes arrive: one by one, many frames at
// once, a peer that closes in the middle, a stranger to the job. Values as bytes come back
// unchanged, and bytes that end early are refused at every place.
#include "backends/process/socket.h"

#include <doctest/doctest.h>

#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "backends/process/wire.h"
#include "base/error.h"

using namespace shardlab;
using namespace shardlab::process;

namespace {

/// Two ends of one connection.
struct Ends {
  Connection here, there;

  Ends() {
    int descriptors[2] = {-1, -1};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, descriptors) == 0);
    here = Connection(Descriptor(descriptors[0]));
    there = Connection(Descriptor(descriptors[1]));
  }
};

/// The bytes that one end sends.
std::string bytes_of(std::uint32_t type, std::string_view payload) {
  Ends ends;
  REQUIRE(ends.here.send(type, payload));
  std::string bytes(4096, '\0');
  const auto count = recv(ends.there.descriptor(), bytes.data(), bytes.size(), 0);
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

void put_raw(const Connection& into, std::string_view bytes) {
  REQUIRE(send(into.descriptor(), bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
}

/// No wait in these tests is long: the awaited bytes have been sent.
Clock::time_point soon() { return Clock::now() + std::chrono::seconds(20); }
Clock::time_point at_once() { return Clock::now(); }

}  // namespace

TEST_CASE("a frame is there when its last byte is, wherever the bytes are cut") {
  const std::string bytes = bytes_of(7, "payload");
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    CAPTURE(cut);
    Ends ends;
    put_raw(ends.here, std::string_view(bytes).substr(0, cut));
    REQUIRE(ends.there.receive());
    CHECK_FALSE(ends.there.next().has_value());
    put_raw(ends.here, std::string_view(bytes).substr(cut));
    const std::optional<Frame> frame = ends.there.wait(soon());
    REQUIRE(frame.has_value());
    CHECK(frame->type == 7);
    CHECK(frame->payload == "payload");
    CHECK_FALSE(ends.there.next().has_value());
  }
}

TEST_CASE("frames come in the order in which they were sent, empty ones and large ones too") {
  Ends ends;
  const std::string large(300000, 'x');
  std::thread sender([&] {
    for (std::uint32_t type = 0; type < 50; ++type) {
      ends.here.send(type, type % 7 == 3 ? large : std::string(type, 'a'));
    }
  });
  for (std::uint32_t type = 0; type < 50; ++type) {
    const std::optional<Frame> frame = ends.there.wait(soon());
    REQUIRE(frame.has_value());
    CHECK(frame->type == type);
    CHECK(frame->payload == (type % 7 == 3 ? large : std::string(type, 'a')));
  }
  sender.join();
}

TEST_CASE("frames that came before the peer closed are there still, and then nothing") {
  Ends ends;
  REQUIRE(ends.here.send(1, "one"));
  REQUIRE(ends.here.send(2, ""));
  put_raw(ends.here, bytes_of(3, "cut short").substr(0, 10));
  ends.here = Connection();
  CHECK_FALSE(ends.there.receive());
  CHECK(ends.there.next()->payload == "one");
  CHECK(ends.there.next()->type == 2);
  CHECK_FALSE(ends.there.next().has_value());
  CHECK_FALSE(ends.there.wait(soon()).has_value());
  // Nothing can be sent without a listener; the process continues.
  bool sent = true;
  for (int i = 0; i < 10 && sent; ++i) sent = ends.there.send(4, std::string(100000, 'y'));
  CHECK_FALSE(sent);
}

TEST_CASE("a wait ends at its deadline, and a connection that is none is false") {
  Ends ends;
  CHECK_FALSE(ends.there.wait(at_once()).has_value());
  CHECK(static_cast<bool>(ends.there));
  CHECK_FALSE(static_cast<bool>(Connection()));
  Descriptor first(dup(ends.there.descriptor()));
  Descriptor second = std::move(first);
  CHECK_FALSE(static_cast<bool>(first));
  CHECK(static_cast<bool>(second));
}

TEST_CASE("strangers to the job are known by their first bytes") {
  for (const std::string& greeting :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string(64, '\0')}) {
    Ends ends;
    put_raw(ends.here, greeting);
    try {
      ends.there.wait(soon());
      FAIL("it was taken for a frame");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kRuntime);
      CHECK(error.summary() == "a connection that is not from this job reached its port");
      CHECK(*error.find("fix") == "set MASTER_PORT to a port that nothing else uses");
    }
  }
}

TEST_CASE("a listener takes the first free port of several, and says which were taken") {
  Listener any(0);
  CHECK(any.port() != 0);
  Connection caller = connect_to("localhost", any.port(), soon());
  REQUIRE(static_cast<bool>(caller));
  Connection answer;
  REQUIRE(any.accept(soon(), answer));
  REQUIRE(caller.send(9, "hello"));
  CHECK(answer.wait(soon())->payload == "hello");
  CHECK_FALSE(any.accept(at_once(), answer));
  try {
    Listener taken(any.port());
    FAIL("the port was free");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kRuntime);
    CHECK(error.summary().starts_with("rank 0 cannot listen on port " + std::to_string(any.port()) +
                                      ": "));
    CHECK(error.find("fix")->starts_with("another MASTER_PORT"));
  }
  try {
    connect_to("no-such-host.invalid", 1, at_once());
    FAIL("the host was known");
  } catch (const Error& error) {
    CHECK(error.summary().starts_with("host no-such-host.invalid is not known: "));
  }
}

TEST_CASE(
    "values as bytes come back in their order, and bytes that end early are refused anywhere") {
  Writer writer;
  writer.put(std::int32_t{-5});
  writer.put_text("two words");
  writer.put_list(std::span<const std::int64_t>(std::vector<std::int64_t>{1, -2, INT64_MAX}));
  writer.put_list(std::span<const double>());
  writer.put_text("");
  writer.put(2.5);
  const auto read_all = [](std::string_view bytes) {
    Reader reader(bytes);
    CHECK(reader.get<std::int32_t>() == -5);
    CHECK(reader.text() == "two words");
    CHECK(reader.list<std::int64_t>() == std::vector<std::int64_t>{1, -2, INT64_MAX});
    CHECK(reader.list<double>().empty());
    CHECK(reader.text().empty());
    CHECK(reader.get<double>() == 2.5);
    CHECK(reader.at_end());
  };
  read_all(writer.bytes());
  const std::string bytes(writer.bytes());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      Reader reader(std::string_view(bytes).substr(0, size));
      reader.get<std::int32_t>();
      reader.text();
      reader.list<std::int64_t>();
      reader.list<double>();
      reader.text();
      reader.get<double>();
      FAIL("cut after ", size, " bytes it was read");
    } catch (const Error& error) {
      CHECK(error.summary() == "a message of another process is cut short");
    }
  }
}
