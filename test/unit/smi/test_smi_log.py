# SPDX-License-Identifier: Apache-2.0
"""-q as text and XML: what telegraf, netdata and others parse."""

import re
import xml.etree.ElementTree as ET

import pytest

# Paths below <gpu> that telegraf's and netdata's readers use, with the shape of the value.
NUMBER = r"-?\d+"
PATHS = {
    "product_name": r".+",
    "product_architecture": r"Hopper",
    "performance_state": r"P\d+",
    "uuid": r"GPU-[0-9a-f-]{36}",
    "serial": r"\d+",
    "vbios_version": r".+",
    "compute_mode": r"Default",
    "display_mode": r"Requested functionality has been deprecated",
    "display_active": r"Disabled",
    "fan_speed": r"N/A",
    "fb_memory_usage/total": NUMBER + " MiB",
    "fb_memory_usage/reserved": NUMBER + " MiB",
    "fb_memory_usage/used": NUMBER + " MiB",
    "fb_memory_usage/free": NUMBER + " MiB",
    "bar1_memory_usage/total": NUMBER + " MiB",
    "bar1_memory_usage/used": NUMBER + " MiB",
    "ecc_mode/current_ecc": r"Enabled",
    "ecc_errors/volatile/sram_correctable": NUMBER,
    "ecc_errors/volatile/sram_uncorrectable_parity": NUMBER,
    "ecc_errors/volatile/sram_uncorrectable_secded": NUMBER,
    "ecc_errors/volatile/dram_correctable": NUMBER,
    "ecc_errors/volatile/dram_uncorrectable": NUMBER,
    "ecc_errors/aggregate/sram_threshold_exceeded": r"No",
    "ecc_errors/aggregate_uncorrectable_sram_sources/sram_l2": NUMBER,
    "retired_pages/multiple_single_bit_retirement/retired_count": r"N/A",
    "retired_pages/double_bit_retirement/retired_count": r"N/A",
    "retired_pages/pending_blacklist": r"N/A",
    "remapped_rows/remapped_row_corr": NUMBER,
    "remapped_rows/remapped_row_unc": NUMBER,
    "remapped_rows/remapped_row_pending": r"No",
    "remapped_rows/remapped_row_failure": r"No",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_max": r"2560 bank\(s\)",
    "temperature/gpu_temp": NUMBER + " C",
    "temperature/gpu_temp_tlimit": NUMBER + " C",
    "temperature/gpu_temp_max_tlimit_threshold": r"-8 C",
    "temperature/gpu_temp_slow_tlimit_threshold": r"-2 C",
    "temperature/gpu_temp_max_gpu_tlimit_threshold": r"0 C",
    "temperature/memory_temp": NUMBER + " C",
    "supported_gpu_target_temp/gpu_target_temp_min": r"N/A",
    "utilization/gpu_util": NUMBER + " %",
    "utilization/memory_util": NUMBER + " %",
    "utilization/encoder_util": NUMBER + " %",
    "utilization/decoder_util": NUMBER + " %",
    "utilization/jpeg_util": NUMBER + " %",
    "utilization/ofa_util": NUMBER + " %",
    "pci/pci_bus_id": r"0{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0",
    "pci/pci_bus": r"[0-9A-F]{2}",
    "pci/pci_device_id": r"233010DE",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": r"5",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": r"5",
    "pci/pci_gpu_link_info/link_widths/current_link_width": r"16x",
    "pci/tx_util": NUMBER + " KB/s",
    "pci/rx_util": NUMBER + " KB/s",
    "pci/replay_counter": NUMBER,
    "encoder_stats/session_count": r"\d+|N/A",
    "fbc_stats/session_count": r"\d+|N/A",
    "clocks/graphics_clock": NUMBER + " MHz",
    "clocks/sm_clock": NUMBER + " MHz",
    "clocks/mem_clock": NUMBER + " MHz",
    "clocks/video_clock": NUMBER + " MHz",
    "max_clocks/sm_clock": r"1980 MHz",
    "clocks_event_reasons/clocks_event_reason_gpu_idle": r"(Not )?Active",
    "clocks_event_reasons_counters/clocks_event_reasons_counters_sw_power_cap": NUMBER + " us",
    "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_power_brake": NUMBER + " us",
    "gpu_power_readings/power_state": r"P\d+",
    "gpu_power_readings/average_power_draw": r"\d+\.\d\d W",
    "gpu_power_readings/instant_power_draw": r"\d+\.\d\d W",
    "gpu_power_readings/current_power_limit": r"700\.00 W",
    "gpu_power_readings/requested_power_limit": r"700\.00 W",
    "gpu_power_readings/default_power_limit": r"700\.00 W",
    "gpu_power_readings/min_power_limit": r"200\.00 W",
    "gpu_power_readings/max_power_limit": r"700\.00 W",
    "module_power_readings/average_power_draw": r"N/A",
    "mig_mode/current_mig": r"Disabled",
    "minor_number": r"\d+",
    "fabric/state": r"Completed",
    "capabilities/egm": r"disabled",
}


@pytest.fixture
def log(training):
    return ET.fromstring(training.ok("-q", "-x"))


def values(gpu):
    return {path: (gpu.findtext(path) or "").strip() for path in PATHS}


def test_head(training, log):
    text = training.ok("-q", "-x")
    assert text.startswith('<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n')
    assert log.tag == "nvidia_smi_log"
    assert log.findtext("driver_version") == "590.48.01"
    assert log.findtext("cuda_version") == "13.1"
    assert log.findtext("attached_gpus") == "3"
    assert [gpu.get("id") for gpu in log.findall("gpu")] == [p.text for p in log.findall("gpu/pci/pci_bus_id")]


def test_what_readers_need(log):
    wrong = {p: v for p, v in values(log.find("gpu")).items() if not re.fullmatch(PATHS[p], v)}
    assert wrong == {}


def test_processes(log):
    infos = log.findall("gpu/processes/process_info")
    assert len(infos) == 2
    assert infos[0].findtext("process_name") == "python"
    assert infos[0].findtext("type") == "C"
    assert int(infos[0].findtext("pid")) > 1
    assert infos[0].findtext("gpu_instance_id") == "N/A"
    assert re.fullmatch(r"\d+ MiB", infos[0].findtext("used_memory"))


def test_mig_devices(log):
    plain, _, parent = log.findall("gpu")
    assert plain.findtext("mig_devices").strip() == "None"
    devices = parent.findall("mig_devices/mig_device")
    assert [d.findtext("index") for d in devices] == ["0", "1"]
    assert [d.findtext("fb_memory_usage/total") for d in devices] == ["40448 MiB", "9984 MiB"]
    assert [d.findtext("device_attributes/shared/multiprocessor_count") for d in devices] == ["60", "16"]
    assert all(d.findtext("ecc_error_count/volatile_count/sram_uncorrectable") == "0" for d in devices)
    assert parent.findtext("utilization/gpu_util") == "N/A"
    assert parent.findtext("remapped_rows") == "N/A"


def test_supported_clocks(log):
    clock = log.find("gpu/supported_clocks/supported_mem_clock")
    assert clock.findtext("value") == "2619 MHz"
    assert clock.findall("supported_graphics_clock")[0].text == "1980 MHz"


def test_boards_differ(boards):
    l40s, t4, a100, b200 = ET.fromstring(boards.ok("-q", "-x")).findall("gpu")
    assert [g.findtext("product_architecture") for g in (l40s, t4, a100, b200)] == [
        "Ada Lovelace", "Turing", "Ampere", "Blackwell"]
    assert t4.find("temperature/gpu_temp_max_tlimit_threshold") is None
    assert re.fullmatch(r"\d+ C", t4.findtext("temperature/gpu_temp_max_threshold"))
    assert t4.findtext("retired_pages/double_bit_retirement/retired_count") == "0"
    assert t4.find("retired_pages/double_bit_retirement/retired_pagelist").text.strip() == ""
    assert t4.findtext("gpu_power_readings/average_power_draw") == "N/A"
    assert t4.findtext("gpu_power_readings/instant_power_draw").endswith(" W")
    assert l40s.findtext("mig_mode/current_mig") == "N/A"
    assert b200.findtext("temperature/gpu_temp_max_tlimit_threshold").endswith(" C")


def test_text_says_the_same(training, log):
    text = training.ok("-q", "-i", "0")
    assert text.startswith("\n==============NVSMI LOG==============\n\nTimestamp                                              : ")
    gpu = log.find("gpu")
    for label, path in {
        "Product Name": "product_name",
        "GPU UUID": "uuid",
        "Performance State": "performance_state",
        "GPU Current Temp": "temperature/gpu_temp",
        "Average Power Draw": "gpu_power_readings/average_power_draw",
        "SW Power Capping": "clocks_event_reasons_counters/clocks_event_reasons_counters_sw_power_cap",
        "Replays Since Reset": "pci/replay_counter",
        "Compute Mode": "compute_mode",
    }.items():
        found = re.search(rf"^ +{re.escape(label)} +: (.*)$", text, re.M)
        assert found and found[1] == gpu.findtext(path), label
    columns = {line.index(" : ") for line in text.splitlines() if " : " in line and not line.startswith("            ")}
    assert columns == {54, 41} or columns == {54}
    assert "        Process ID                        : " in text


def test_display(training):
    text = training.ok("-q", "-d", "MEMORY,ecc", "-i", "0")
    heads = re.findall(r"^    (\S.*)$", text, re.M)
    assert heads == ["FB Memory Usage", "BAR1 Memory Usage", "Conf Compute Protected Memory Usage", "ECC Mode",
                     "ECC Errors"]
    assert training.run("-q", "-d", "NONSENSE").returncode == 2


def test_samples(training):
    text = training.ok("-q", "-d", "POWER", "-i", "0")
    block = text[text.index("Power Samples"):]
    numbers = {name: float(re.search(rf"{name} +: ([\d.]+)", block)[1])
               for name in ("Duration", "Number of Samples", "Max", "Min", "Avg")}
    assert numbers["Min"] <= numbers["Avg"] <= numbers["Max"] <= 700
    assert numbers["Number of Samples"] > 1 and numbers["Duration"] > 0


def test_faults_show(make_node):
    reset = make_node("reset-required", at=700)
    gpu = ET.fromstring(reset.ok("-q", "-x", "-i", "6")).find("gpu")
    assert gpu.findtext("fb_memory_usage/used") == "GPU requires reset"
    assert gpu.findtext("product_name") == "GPU requires reset"


@pytest.mark.parametrize("generation", ["535", "590", "610"])
def test_other_libraries(make_node, generation):
    driver = {"535": "535.261.03", "590": "590.48.01", "610": "610.57.04"}[generation]
    node = make_node(f'about: one\nnode: {{driver: "{driver}"}}\ngpus: {{board: a100-sxm4-80gb}}\ntruth: []\n',
                     generation=generation)
    log = ET.fromstring(node.ok("-q", "-x"))
    assert log.findtext("driver_version") == driver
    app = log.findtext("gpu/applications_clocks/graphics_clock")
    assert app.endswith(" MHz") == (generation == "535")
