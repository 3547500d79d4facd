/* SPDX-License-Identifier: MIT */
/*
 * A threaded C++ program as people write them: maps, strings, shared pointers, futures, a queue,
 * over-aligned classes, exceptions that cross threads, thread_local objects.
 *
 *   prog_threads [ROUNDS]
 */
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace
{
struct Item {
    std::string name;
    std::vector<std::uint64_t> values;
};

class Queue
{
  public:
    void put(std::shared_ptr<Item> item)
    {
        std::lock_guard<std::mutex> lock(mutex);
        items.push_back(std::move(item));
        ready.notify_one();
    }
    std::shared_ptr<Item> get()
    {
        std::unique_lock<std::mutex> lock(mutex);
        ready.wait(lock, [this] { return !items.empty(); });
        auto item = std::move(items.front());
        items.pop_front();
        return item;
    }

  private:
    std::mutex mutex;
    std::condition_variable ready;
    std::deque<std::shared_ptr<Item>> items;
};

std::uint64_t consume(Queue &queue)
{
    std::unordered_map<std::string, std::uint64_t> sums;
    std::uint64_t total = 0;

    while (auto item = queue.get()) {
        for (auto value : item->values)
            sums[item->name] += value;
    }
    for (auto &[name, sum] : sums)
        total += sum * name.size();
    return total;
}

void produce(Queue &queue, unsigned number, unsigned items)
{
    for (unsigned i = 0; i < items; i++) {
        auto item = std::make_shared<Item>();
        item->name = std::string(10 + i % 60, 'a') + std::to_string(i % 50);
        for (unsigned k = 0; k < i % 200; k++)
            item->values.push_back(std::uint64_t{number} * 1000003 + i * 17 + k);
        queue.put(std::move(item));
    }
}

struct alignas(256) Wide {
    explicit Wide(unsigned n) : number(n)
    {
    }
    unsigned number;
    char fill[400] = {};
};

/* Destructed as its thread ends, when malloc may still be called. */
struct Diary {
    std::vector<std::string> lines;
    static inline std::atomic<std::size_t> written{0};
    ~Diary()
    {
        lines.push_back(std::string(1000, 'z'));
        written += lines.size();
    }
};
thread_local Diary diary;

unsigned wide(unsigned number)
{
    std::vector<std::unique_ptr<Wide>> kept;
    std::vector<Wide> row;
    unsigned misaligned = 0;

    for (unsigned i = 0; i < 300; i++) {
        kept.push_back(std::make_unique<Wide>(i));
        row.emplace_back(i);
        if (i % 3 == 0)
            kept.erase(kept.begin() + i % kept.size());
        diary.lines.push_back(std::to_string(i));
    }
    for (const auto &one : kept)
        misaligned += reinterpret_cast<std::uintptr_t>(one.get()) % alignof(Wide) != 0;
    misaligned += reinterpret_cast<std::uintptr_t>(row.data()) % alignof(Wide) != 0;
    if (number % 2)
        throw std::runtime_error(std::string(100 + number, 'e'));
    return misaligned;
}

void report_wide()
{
    std::vector<std::future<unsigned>> results;
    std::size_t thrown = 0;
    unsigned misaligned = 0;

    for (unsigned i = 0; i < 8; i++)
        results.push_back(std::async(std::launch::async, wide, i));
    for (auto &result : results) {
        try {
            misaligned += result.get();
        } catch (const std::runtime_error &error) {
            thrown += std::string(error.what()).size();
        }
    }
    std::cout << misaligned << " misaligned, " << thrown << " thrown\n";
}

/* As many as the handler allows, then the exception. */
void report_handler()
{
    static int calls;

    calls = 0;
    std::set_new_handler([] {
        if (++calls == 3)
            std::set_new_handler(nullptr);
    });
    volatile std::size_t much = std::size_t{1} << 60;
    try {
        delete[] new char[much];
    } catch (const std::bad_alloc &error) {
        std::cout << error.what() << " after " << calls << '\n';
    }
    std::cout << (operator new (much, std::align_val_t{256}, std::nothrow) == nullptr) << '\n';
}

void report_queue()
{
    constexpr unsigned producers = 6, consumers = 4, items = 4000;
    Queue queue;
    std::vector<std::future<std::uint64_t>> results;
    std::vector<std::thread> threads;
    std::uint64_t total = 0;
    std::map<unsigned, std::string> order;

    for (unsigned i = 0; i < consumers; i++)
        results.push_back(std::async(std::launch::async, [&queue] { return consume(queue); }));
    for (unsigned i = 0; i < producers; i++)
        threads.emplace_back(produce, std::ref(queue), i, items);
    for (auto &thread : threads)
        thread.join();
    for (unsigned i = 0; i < consumers; i++)
        queue.put(nullptr);
    for (auto &result : results)
        total += result.get();
    for (unsigned i = 0; i < 5000; i++)
        order[i * 7919 % 5003] = std::to_string(i);
    try {
        std::vector<char> huge(static_cast<std::size_t>(-1) / 4);
        std::cout << huge.size() << '\n';
    } catch (const std::bad_alloc &error) {
        std::cout << error.what() << '\n';
    }
    std::cout << total << ' ' << order.begin()->second << ' ' << order.size() << '\n';
}

} // namespace

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? std::atoi(argv[1]) : 1;

    for (int i = 0; i < rounds; i++) {
        report_wide();
        report_handler();
        report_queue();
        std::cout << Diary::written << " lines\n";
    }
}
