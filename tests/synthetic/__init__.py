"""Streams for what public ones lack, written bit by bit.

``bits`` writes syntax elements; ``h264`` and ``hevc`` are small encoders of PCM and skipped blocks
with any slice header one likes; ``h264_cases``, ``hevc_cases`` and ``container_cases`` are the odd
streams; ``trace`` reads streams back with FFmpeg's coded bitstream parser, to check that what is
odd about a stream is in it. ``python -m synthetic FOLDER``, run in ``tests``, writes them all.
"""
