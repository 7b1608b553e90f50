"""What a run tells: events go over one bus to sinks, which count, draw and write.

Import from the modules; pandas and plotly load only when a frame or a figure is asked for.
"""
