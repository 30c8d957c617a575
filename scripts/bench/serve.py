#!/usr/bin/env python3
"""Measures `saccade serve` under load: several clients, each on a connection of its own, send images one
after another. Prints how many answers arrived and were the same for the same image, the times from a request
to its answer, and how many images the model received together.
Usage: scripts/bench/serve.py CHECKPOINT IMAGE... [--program build/saccade] [--clients 8] [--requests 1000]
       [-- FLAGS]
"""
import argparse
import http.client
import re
import signal
import subprocess
import sys
import threading
import time


def ask(connection, path, body):
    begin = time.perf_counter()
    connection.request("POST", path, body, {"Content-Type": "application/octet-stream"})
    response = connection.getresponse()
    return response.status, response.read(), (time.perf_counter() - begin) * 1e3


def client(address, images, numbers, results):
    connection = http.client.HTTPConnection(address)
    for number in numbers:
        name = number % len(images)
        results[number] = (name, *ask(connection, "/predict", images[name]))
    connection.close()


def batch_sizes(metrics):
    """Converts Prometheus's cumulative buckets to "1: 12, 2: 30, up to 4: 7"."""
    before, low, words = 0, 0, []
    for bound, count in re.findall(r'saccade_batch_size_bucket\{le="(.+?)"\} (\d+)', metrics):
        if int(count) > before:
            high = "more" if bound == "+Inf" else bound
            words.append(f"{high if high == str(low + 1) else f'{low + 1} to {high}'}: {int(count) - before}")
        before, low = int(count), 0 if bound == "+Inf" else int(bound)
    return ", ".join(words)


def main():
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    own, flags = words[:end], words[end + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("image", nargs="+")
    parser.add_argument("--program", default="build/saccade")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=1000)
    arguments = parser.parse_args(own)
    images = []
    for path in arguments.image:
        with open(path, "rb") as file:
            images.append(file.read())

    server = subprocess.Popen([arguments.program, "serve", arguments.checkpoint, "--port", "0", *flags],
                              stdout=subprocess.PIPE, text=True)
    try:
        address = None
        for line in server.stdout:
            print(line, end="")
            if found := re.search(r"http://([^/]+)/", line):
                address = found[1]
                break
        if not address:
            sys.exit("error: serve.py: the program has ended")
        results = [None] * arguments.requests
        threads = []
        for k in range(arguments.clients):
            numbers = range(k, arguments.requests, arguments.clients)
            threads.append(threading.Thread(target=client, args=(address, images, numbers, results)))
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
        connection = http.client.HTTPConnection(address)
        connection.request("GET", "/metrics")
        metrics = connection.getresponse().read().decode()
        connection.close()
    finally:
        server.send_signal(signal.SIGTERM)
        print(server.stdout.read(), end="")
        status = server.wait()

    good = [result for result in results if result and result[1] == 200]
    first = {}
    same = sum(first.setdefault(name, body) == body for name, _, body, _ in good)
    times = sorted(result[3] for result in good)
    print(f"{len(good)} of {arguments.requests} answered, {same} as the first one for the image; exit status {status}")
    if times:
        at = [times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.9, 0.99)]
        print(f"{len(good) / seconds:.1f} images/s with {arguments.clients} clients; "
              f"p50 {at[0]:.1f} ms, p90 {at[1]:.1f} ms, p99 {at[2]:.1f} ms, longest {times[-1]:.1f} ms")
    print(f"batches by size: {batch_sizes(metrics)}")
    sys.exit(len(good) < arguments.requests or same < len(good))


main()
