"""Running a coordinator and reaching it: the server of ``lycosa serve``, and the commands that call
it.
"""
